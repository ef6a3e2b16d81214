// Size arithmetic that cannot overflow silently.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace shmtensor {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

/// `alignment` is a power of two; the caller keeps `value` far enough from the top of the range.
constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) noexcept {
  return (value + alignment - 1) & ~(alignment - 1);
}

constexpr std::uint64_t align_down(std::uint64_t value, std::uint64_t alignment) noexcept {
  return value & ~(alignment - 1);
}

/// Does `[offset, offset + size)` lie inside `[0, limit)`?
constexpr bool fits(std::uint64_t offset, std::uint64_t size, std::uint64_t limit) noexcept {
  return size <= limit && offset <= limit - size;
}

}  // namespace shmtensor
