// Time that never jumps.
#pragma once

#include <time.h>

#include <cstdint>

namespace shmtensor {

/// Milliseconds since boot, a few nanoseconds to read, exact to a scheduler tick. The same clock in
/// every process of the machine, but for an offset in time namespaces.
inline std::uint64_t coarse_milliseconds() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1000000;
}

inline std::uint32_t coarse_seconds() noexcept {
  return static_cast<std::uint32_t>(coarse_milliseconds() / 1000);
}

/// How long ago another process's `coarse_seconds` was; 0 for one that is ahead, as in a time
/// namespace.
inline std::uint32_t seconds_since(std::uint32_t then) noexcept {
  const auto age = static_cast<std::int32_t>(coarse_seconds() - then);
  return age > 0 ? static_cast<std::uint32_t>(age) : 0;
}

}  // namespace shmtensor
