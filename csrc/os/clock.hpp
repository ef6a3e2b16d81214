// Monotonic clocks.
#pragma once

#include <time.h>

#include <cstdint>

namespace shmtensor {

/// Milliseconds since boot. Reading it takes a few nanoseconds; its resolution is a scheduler tick.
/// All processes of the machine see the same clock, except for the offset of a time namespace.
inline std::uint64_t coarse_milliseconds() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1000000;
}

/// Nanoseconds since boot, exactly; for durations within this process.
inline std::uint64_t monotonic_nanoseconds() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

inline std::uint32_t coarse_seconds() noexcept {
  return static_cast<std::uint32_t>(coarse_milliseconds() / 1000);
}

/// Returns the seconds since another process's `coarse_seconds` was `then`; 0 if `then` is in the
/// future, which a time namespace can cause.
inline std::uint32_t seconds_since(std::uint32_t then) noexcept {
  const auto age = static_cast<std::int32_t>(coarse_seconds() - then);
  return age > 0 ? static_cast<std::uint32_t>(age) : 0;
}

}  // namespace shmtensor
