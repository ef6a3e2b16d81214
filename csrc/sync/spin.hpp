// Waits for a process that runs, without a system call. The simulation does not wait: a thread
// reaches its sleep sooner.
#pragma once

#include "os/backoff.hpp"

namespace shmtensor::sync {

/// Waits about two microseconds. Returns true if `ready()` does.
template <typename Ready>
[[nodiscard]] bool spin_until(Ready&& ready) noexcept {
  constexpr int kTurns = 64;
  Backoff backoff;
  for (int turn = 0; turn < kTurns; ++turn) {
    if (ready()) return true;
    backoff.pause();
  }
  return false;
}

}  // namespace shmtensor::sync
