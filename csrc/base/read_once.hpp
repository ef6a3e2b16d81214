// Numbers in memory that other processes may change at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shmtensor {

/// The word at a place, which need not be aligned, read once: the compiler does not know any more
/// where it came from, so what is checked and what is used are the same.
inline std::uint64_t read_once(const std::byte* place) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, place, sizeof word);
  asm volatile("" : "+r"(word));
  return word;
}

}  // namespace shmtensor
