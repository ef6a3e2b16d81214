// Monotonic clocks.
#pragma once

#include <cstdint>

#include "os/plain_clock.hpp"

namespace shmtensor {

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
