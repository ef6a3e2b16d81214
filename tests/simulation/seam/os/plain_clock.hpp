// As csrc/os/plain_clock.hpp; time passes only when it is read.
#pragma once

#include <cstdint>

#include "simulation/run.hpp"

namespace shmtensor {

inline std::uint64_t monotonic_nanoseconds() noexcept {
  auto* const run = simulation::Run::running();
  return run != nullptr ? run->nanoseconds() : 0;
}
inline std::uint64_t coarse_milliseconds() noexcept { return monotonic_nanoseconds() / 1'000'000; }

}  // namespace shmtensor
