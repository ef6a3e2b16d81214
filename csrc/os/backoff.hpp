// Waits for another thread that needs a few instructions only.
#pragma once

#include <sched.h>

namespace shmtensor {

/// Spins a few times, then yields the processor: the other thread may have been preempted.
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
