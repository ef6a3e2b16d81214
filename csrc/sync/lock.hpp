// A lock that survives its owner.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>

#include "queue/owner_lock.hpp"
#include "sync/layout.hpp"

namespace shmtensor::sync {

/// The death of a lock's last owner.
struct Death {
  std::int32_t pid = 0;
  std::uint64_t at = 0;  ///< in `coarse_milliseconds`
};

/// An OwnerLock, with the thread of its owner. `slot` is that of the calling process.
/// Threads, processes: all members may be called simultaneously. A thread may be killed at any
/// instruction.
class Lock {
 public:
  static void create(std::span<std::byte> block, bool is_silent) {
    sync::create<LockWords>(block,
                            [&](LockWords& words) { words.is_silent.store(is_silent ? 1 : 0); });
  }
  /// Throws SessionError if the block has no lock.
  explicit Lock(std::span<std::byte> block) : words_(words_of<LockWords>(block)) {}

  [[nodiscard]] bool try_lock(SlotNumber slot) noexcept {
    return owner_lock().try_lock(slot) && own(slot);
  }
  /// Waits for a short time. Returns true if the caller has the lock.
  [[nodiscard]] bool lock_within(SlotNumber slot, std::chrono::nanoseconds time) noexcept {
    return owner_lock().lock_within(slot, time) && own(slot);
  }
  /// Unlocks whatever process or thread has locked it. Returns false if none has.
  bool unlock() noexcept {
    words_.thread.store(0, std::memory_order_relaxed);
    return owner_lock().unlock();
  }

  /// The calling thread has the lock that another one of this process has locked for it.
  void take_over(SlotNumber slot) noexcept { static_cast<void>(own(slot)); }

  /// Takes the lock once more if this thread has it. Throws Error after too many times.
  [[nodiscard]] bool lock_again(SlotNumber slot);
  /// Gives it back once; unlocks it after the last time. Returns false if this thread lacks it.
  [[nodiscard]] bool unlock_once(SlotNumber slot) noexcept;
  /// For a thread that has the lock and waits for a condition: how often it has it.
  [[nodiscard]] std::uint32_t depth() const noexcept {
    return words_.depth.load(std::memory_order_relaxed);
  }
  void set_depth(std::uint32_t depth) noexcept {
    words_.depth.store(depth, std::memory_order_relaxed);
  }

  [[nodiscard]] bool is_locked() const noexcept {
    return OwnerLock(words_.owner).owner() != OwnerLock::kNone;
  }
  [[nodiscard]] bool is_owned_by(SlotNumber slot) const noexcept {
    return OwnerLock(words_.owner).owner() == slot;
  }
  /// Return true if the calling thread has the lock.
  [[nodiscard]] bool is_mine(SlotNumber slot) const noexcept;
  [[nodiscard]] bool is_silent() const noexcept { return words_.is_silent.load() != 0; }

  /// For the owner, after it has the lock: the death of the owner before it, which no other gets.
  [[nodiscard]] std::optional<Death> take_death() noexcept {
    if (words_.died.load(std::memory_order_relaxed) == 0) return std::nullopt;
    return read_death();
  }
  /// Unlocks it as if its owner had died: a thread of process `pid` has ended.
  void unlock_for_thread(std::int32_t pid) noexcept { abandon(words_, pid); }

  /// For the manager, before the slot of the dead owner gets another process.
  static void abandon(LockWords& words, std::int32_t pid) noexcept;

 private:
  [[nodiscard]] OwnerLock owner_lock() const noexcept { return OwnerLock(words_.owner); }
  bool own(SlotNumber slot) noexcept;
  [[nodiscard]] Death read_death() noexcept;

  LockWords& words_;
};

}  // namespace shmtensor::sync
