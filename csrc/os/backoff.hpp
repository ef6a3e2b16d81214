// How to wait for a few instructions of another thread.
#pragma once

#include <sched.h>

namespace shmtensor {

/// Spins a little, then gives the processor away: the thread waited for may be preempted.
class Backoff {
 public:
  void pause() noexcept {
    if (++turns_ % 32 != 0) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#elif defined(__aarch64__)
      asm volatile("yield");
#endif
    } else {
      sched_yield();
    }
  }

 private:
  unsigned turns_ = 0;
};

}  // namespace shmtensor
