// The clocks below those of clock.hpp. The simulation (tests/simulation) has others.
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

/// The same in nanoseconds, exactly.
inline std::uint64_t monotonic_nanoseconds() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace shmtensor
