// Waits for another thread that needs a few instructions only.
#pragma once

#include <sched.h>
#include <time.h>

namespace shmtensor {

/// Informs the processor that the thread spins.
inline void pause_processor() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Spins a little, then yields the processor: the thread that is waited for may be preempted. To a
/// real-time thread the scheduler returns immediately after a yield if the other one has a lower
/// priority, so in the end this sleeps.
class Backoff {
 public:
  void pause() noexcept {
    if (++turns_ % kSpins != 0) {
      pause_processor();
    } else if (turns_ < kSpins * kYields) {
      sched_yield();
    } else {
      const timespec moment{0, 50'000};
      ::nanosleep(&moment, nullptr);
    }
  }

 private:
  static constexpr unsigned kSpins = 32;
  static constexpr unsigned kYields = 32;

  unsigned turns_ = 0;
};

}  // namespace shmtensor
