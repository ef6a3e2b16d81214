// As csrc/os/backoff.hpp; a thread that waits lets the others go on.
#pragma once

#include "simulation/run.hpp"

namespace shmtensor {

inline void pause_processor() noexcept {
  if (auto* const run = simulation::Run::running()) run->yield();
}

class Backoff {
 public:
  void pause() noexcept { pause_processor(); }
};

}  // namespace shmtensor
