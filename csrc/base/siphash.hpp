// SipHash-2-4 (Aumasson and Bernstein, 2012), a keyed 64-bit hash for short inputs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shmtensor {

struct SipKey {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

[[nodiscard]] std::uint64_t siphash(SipKey key, const void* data, std::size_t size) noexcept;

}  // namespace shmtensor
