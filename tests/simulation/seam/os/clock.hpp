// As csrc/os/clock.hpp; time passes only when it is read.
#pragma once

#include <cstdint>

#include "simulation/run.hpp"

namespace shmtensor {

inline std::uint64_t monotonic_nanoseconds() noexcept {
  auto* const run = simulation::Run::running();
  return run != nullptr ? run->nanoseconds() : 0;
}
inline std::uint64_t coarse_milliseconds() noexcept { return monotonic_nanoseconds() / 1'000'000; }
inline std::uint32_t coarse_seconds() noexcept {
  return static_cast<std::uint32_t>(coarse_milliseconds() / 1000);
}
inline std::uint32_t seconds_since(std::uint32_t then) noexcept {
  const auto age = static_cast<std::int32_t>(coarse_seconds() - then);
  return age > 0 ? static_cast<std::uint32_t>(age) : 0;
}

}  // namespace shmtensor
