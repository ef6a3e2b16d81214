// Decides for how long a thread spins before it sleeps.
#pragma once

#include <cstdint>

#include "base/atomic.hpp"
#include "os/cpu_quota.hpp"

namespace shmtensor {

/// Spinning pays if the wait ends sooner than a sleeping thread would be woken, after about 50
/// microseconds. The window follows the waits that were observed: a wait that ended while the
/// thread spun opens it, one that ended later halves it, until the thread does not spin at all. Of
/// the short waits then, one in sixteen tries again, and half as many after each trial that fails:
/// where processes outnumber processors, another one needs the time. A thread that may run on one
/// processor only never spins there for a process that was on the same one: that could not run
/// meanwhile. A process with a CPU quota below two processors never spins: the time would be
/// missing afterwards to it, or to the process that it waits for. Threads: all members may be
/// called simultaneously; an update that is lost does no harm.
class SpinWindow {
 public:
  /// `quota` is in processors.
  explicit SpinWindow(double quota = cpu_quota()) noexcept : most_(quota < 2 ? 0 : kMost) {}

  /// How many nanoseconds to spin in a wait that begins now. `other` is the processor on which the
  /// other end of the queue was used last.
  [[nodiscard]] std::uint64_t window(std::uint64_t now, int other) noexcept;
  /// A wait ended while the thread spun.
  void note_spun() noexcept {
    window_.store(most_, std::memory_order_relaxed);
    every_.store(kTrial, std::memory_order_relaxed);
    is_trial_.store(false, std::memory_order_relaxed);
  }
  /// A wait took so many nanoseconds, at the end of which the thread slept.
  void note_slept(std::uint64_t waited) noexcept;

 private:
  static constexpr std::uint64_t kMost = 100'000;
  static constexpr std::uint64_t kLeast = 2'000;
  // Two threads that answer each other, and both sleep, wait about this long.
  static constexpr std::uint64_t kShort = 200'000;
  static constexpr std::uint32_t kTrial = 16;
  static constexpr std::uint32_t kRarestTrial = 1024;
  static constexpr std::uint64_t kRecheck = 100'000'000;

  const std::uint64_t most_;
  Atomic<std::uint64_t> window_{most_};
  Atomic<std::uint32_t> short_{0};       ///< waits without spinning that were short
  Atomic<std::uint32_t> every_{kTrial};  ///< so many short waits between trials
  Atomic<bool> is_trial_{false};
  Atomic<std::uint64_t> recheck_at_{0};
  Atomic<bool> pinned_{false};
};

}  // namespace shmtensor
