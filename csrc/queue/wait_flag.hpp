// A word of shared memory on which processes sleep until a state changes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "os/futex.hpp"

namespace shmtensor {

/// Not zero while a process may be asleep. A process that waits announces itself, reads the
/// state again, then sleeps; a process that changes the state reads the word afterwards. All
/// four accesses are sequentially consistent, so one of the two sees the other. Without a waiter, a
/// change costs one load.
///
/// Processes: all members may be called simultaneously. A thread may be killed at any instruction;
/// then the manager calls `wake_everyone`, because the dead process may have been the only one that
/// was woken.
class WaitFlag {
 public:
  explicit WaitFlag(std::atomic<std::uint32_t>& word) noexcept : word_(word) {}

  void announce() noexcept { word_.store(1); }
  /// Returns after a wake-up, the time, or a signal.
  WaitEnd sleep(std::chrono::nanoseconds time) noexcept {
    return wait_for_change(word_, 1, static_cast<std::uint64_t>(time.count()));
  }
  /// Wakes as many processes as can use the change.
  void notify(std::uint32_t processes) noexcept {
    if (word_.load() != 0 && wake(word_, processes) < processes) wake_everyone();
  }
  /// A process that fell asleep before the word was cleared is woken, and one that is about to
  /// sleep finds the word changed.
  void wake_everyone() noexcept {
    word_.store(0);
    wake_all(word_);
  }

 private:
  std::atomic<std::uint32_t>& word_;
};

}  // namespace shmtensor
