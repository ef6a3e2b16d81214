// A word of shared memory on which processes sleep until a state changes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/atomic.hpp"
#include "os/futex.hpp"

namespace shmtensor {

/// clears:31 | a process may be asleep:1. A process that waits announces itself, checks the state
/// again, then sleeps; a process that changes the state checks the word afterwards. All four
/// accesses are sequentially consistent, so one of the two sees the other. Without a waiter, a
/// change costs one load.
///
/// A process sleeps only while the word is the one that it announced. So a word that was cleared
/// after its check, and announced again by another process, lets it check again.
///
/// Processes: all members may be called simultaneously. A thread may be killed at any instruction;
/// then the manager calls `wake_everyone`, because the dead process may have been the only one that
/// was woken.
class WaitFlag {
 public:
  explicit WaitFlag(Atomic<std::uint32_t>& word) noexcept : word_(word) {}

  /// Returns the word, for `sleep`.
  [[nodiscard]] std::uint32_t announce() noexcept { return word_.fetch_or(1) | 1; }
  /// Returns after a wake-up, the time, or a signal; immediately if the word has changed since.
  WaitEnd sleep(std::uint32_t announced, std::chrono::nanoseconds time) noexcept {
    return wait_for_change(word_, announced, nanoseconds(time));
  }
  /// The same, also when another word changes: see `wait_for_either`.
  WaitEnd sleep(std::uint32_t announced, const Atomic<std::uint32_t>& other, std::uint32_t expected,
                std::chrono::nanoseconds time) noexcept {
    return wait_for_either(word_, announced, other, expected, nanoseconds(time));
  }
  /// Wakes as many processes as can use the change.
  void notify(std::uint32_t processes) noexcept {
    if (has_waiter() && wake(word_, processes) < processes) wake_everyone();
  }
  [[nodiscard]] bool has_waiter() const noexcept { return (word_.load() & 1) != 0; }
  /// The same for all.
  void notify_everyone() noexcept {
    if (has_waiter()) wake_everyone();
  }
  /// A process that fell asleep before the word was cleared is woken, and one that is about to
  /// sleep finds the word changed.
  void wake_everyone() noexcept {
    std::uint32_t word = word_.load();
    while (!word_.compare_exchange_weak(word, (word | 1) + 1)) {
    }
    wake_all(word_);
  }

 private:
  static std::uint64_t nanoseconds(std::chrono::nanoseconds time) noexcept {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0));
  }

  Atomic<std::uint32_t>& word_;
};

}  // namespace shmtensor
