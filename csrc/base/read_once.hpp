// Reads numbers from memory that other processes may change at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shmtensor {

/// Reads a word, which need not be aligned, exactly once. The compiler cannot read it a second
/// time, so the checked value is the value that is used.
inline std::uint64_t read_once(const std::byte* place) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, place, sizeof word);
  asm volatile("" : "+r"(word));
  return word;
}

}  // namespace shmtensor
