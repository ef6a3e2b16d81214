// A lock for critical sections of a few dozen instructions.
#pragma once

#include "base/atomic.hpp"
#include "base/thread_annotations.hpp"
#include "os/backoff.hpp"

namespace shmtensor {

/// One byte. Locking is one atomic exchange, unlocking a store. For LockGuard.
class CAPABILITY("spin lock") SpinLock {
 public:
  void lock() noexcept ACQUIRE() {
    Backoff backoff;
    while (taken_.exchange(true, std::memory_order_acquire)) {
      while (taken_.load(std::memory_order_relaxed)) backoff.pause();
    }
  }
  void unlock() noexcept RELEASE() { taken_.store(false, std::memory_order_release); }

 private:
  Atomic<bool> taken_{false};
};

}  // namespace shmtensor
