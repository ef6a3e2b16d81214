// A lock in shared memory that names its owner, so that the manager can unlock it after the owner's
// death.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/atomic.hpp"
#include "base/ids.hpp"

namespace shmtensor {

/// awaited:1 | 0:15 | slot of the owner + 1:16. The compare-and-swap that takes the lock writes its
/// owner. Only the manager takes it from a process, after that process has died, and before the
/// slot can get another owner.
///
/// Processes: all members may be called simultaneously. A thread may be killed at any instruction.
class OwnerLock {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  explicit OwnerLock(Atomic<std::uint32_t>& word) noexcept : word_(word) {}

  [[nodiscard]] bool try_lock(SlotNumber slot) noexcept { return take(slot, 0); }
  /// Tries for about a microsecond, in which an owner that runs unlocks.
  [[nodiscard]] bool try_lock_briefly(SlotNumber slot) noexcept;
  /// Waits for the lock for a short time. Returns true if the caller has it.
  [[nodiscard]] bool lock_within(SlotNumber slot, std::chrono::nanoseconds time) noexcept;
  /// Returns false if it was not locked.
  bool unlock() noexcept;

  /// kNone if the lock is free.
  [[nodiscard]] std::uint32_t owner() const noexcept { return (word_.load() & 0xffff) - 1; }
  /// For the manager, after the owner's death.
  void unlock_for_dead() noexcept;
  /// Lets all waiters check the lock: one that was woken may have been killed.
  void wake_waiters() noexcept;

 private:
  static constexpr std::uint32_t kAwaited = 1u << 31;

  [[nodiscard]] bool take(SlotNumber slot, std::uint32_t awaited) noexcept {
    std::uint32_t free = 0;
    return word_.compare_exchange_strong(free, (slot + 1u) | awaited, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }

  Atomic<std::uint32_t>& word_;
};

/// Has an OwnerLock that its thread has locked.
class OwnerLockGuard {
 public:
  explicit OwnerLockGuard(OwnerLock lock) noexcept : lock_(lock) {}
  ~OwnerLockGuard() { lock_.unlock(); }
  OwnerLockGuard(const OwnerLockGuard&) = delete;
  OwnerLockGuard& operator=(const OwnerLockGuard&) = delete;

 private:
  OwnerLock lock_;
};

}  // namespace shmtensor
