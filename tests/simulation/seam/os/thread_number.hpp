// As csrc/os/thread_number.hpp.
#pragma once

#include <cstdint>

#include "simulation/run.hpp"

namespace shmtensor {

[[nodiscard]] inline std::uint32_t thread_number() noexcept {
  auto* const run = simulation::Run::running();
  return run != nullptr ? run->thread_number() : 1;
}

}  // namespace shmtensor
