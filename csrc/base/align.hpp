// Overflow-safe arithmetic on sizes and offsets.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace shmtensor {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

/// Requires that `alignment` is a power of two and that the result does not overflow.
constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) noexcept {
  return (value + alignment - 1) & ~(alignment - 1);
}

constexpr std::uint64_t align_down(std::uint64_t value, std::uint64_t alignment) noexcept {
  return value & ~(alignment - 1);
}

/// Return true if `[offset, offset + size)` is inside `[0, limit)`.
constexpr bool fits(std::uint64_t offset, std::uint64_t size, std::uint64_t limit) noexcept {
  return size <= limit && offset <= limit - size;
}

}  // namespace shmtensor
