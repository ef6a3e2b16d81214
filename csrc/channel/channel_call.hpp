// What a process needs for one message, over several attempts to put or take it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "channel/queue.hpp"
#include "os/limits.hpp"
#include "queue/layout.hpp"
#include "queue/owner_lock.hpp"
#include "queue/rings.hpp"
#include "session/held_block.hpp"

namespace shmtensor {

/// Threads: one.
class ChannelCall final : private RingMapper {
 public:
  explicit ChannelCall(Session& session) noexcept : session_(session) {}
  ~ChannelCall() override;
  ChannelCall(const ChannelCall&) = delete;
  ChannelCall& operator=(const ChannelCall&) = delete;

  /// Return true if the owner of the lock for which this call waits is stopped, has ended, or is
  /// not seen in /proc. A process that waits for a processor is not stopped.
  [[nodiscard]] bool owner_is_stopped() const noexcept;

 private:
  friend class Queue;
  friend class Broadcast;
  friend class BroadcastReader;
  friend class NewestMessage;
  friend class Cache;
  friend class CacheTurn;

  static constexpr BlockNumber kNoBlock = ~BlockNumber{0};
  static constexpr std::chrono::nanoseconds kLockSlice = std::chrono::milliseconds(100);

  /// Returns what `change()` returns, with the lock of the end; `locked` if another process or
  /// thread has it. Throws SessionError if this process has no slot.
  template <typename Change>
  [[nodiscard]] Attempt with_lock(QueueEnd& end, Change&& change) {
    session_.require_slot();
    end_ = &end;
    if (locked_ == nullptr && !OwnerLock(end.lock).try_lock_briefly(session_.slot())) {
      return Attempt::locked;
    }
    locked_ = nullptr;
    const OwnerLockGuard guard(OwnerLock(end.lock));
    end.processor.store(present_processor(), std::memory_order_relaxed);
    return change();
  }
  /// The result of an attempt on an object that was closed. Unlocks what `prepare` has locked for
  /// it: this object may be destroyed after its thread has waited for the GIL.
  [[nodiscard]] Attempt closed() noexcept {
    unlock();
    return Attempt::closed;
  }
  void unlock() noexcept;
  /// Takes the lock of an end until this object is destroyed. Goes on without it if its owner is
  /// stopped, or if it names no process, as only in damaged memory. Throws SessionError if this
  /// process has no slot.
  void lock_if_possible(QueueEnd& end);
  /// The result of a take that has read the shutdown and then found all of so many messages taken:
  /// nothing if another message was put since.
  [[nodiscard]] std::optional<Attempt> at_end(QueueEnd& tail, std::uint64_t count) const noexcept;
  /// After `ending`: waits until no process has the lock for a short time, at most for `time`.
  void wait_for_end(QueueEnd& tail, std::chrono::nanoseconds time);
  /// Waits for the lock of the last attempt for a short time, at most for `time`.
  void wait_for_lock(std::chrono::nanoseconds time);

  [[nodiscard]] std::span<std::byte> map_ring(const NamedTicket& named, Strategy strategy) override;
  /// The arena of a message, or of a ring to be freed, which stays mapped until the next call; null
  /// if it must be mapped first.
  [[nodiscard]] Arena* arena(ArenaNumber number, Strategy strategy) noexcept {
    return find(pinned_, number, strategy);
  }
  /// Waits for the lock of an end for a short time, at most for `time`. Returns true if this call
  /// has it.
  [[nodiscard]] bool lock_within(QueueEnd& end, std::chrono::nanoseconds time);
  /// Return true if the lock has an owner that is not a process of the session.
  [[nodiscard]] bool is_damaged(OwnerLock lock) const noexcept;
  [[nodiscard]] Arena* find(PinnedArena& pin, ArenaNumber number, Strategy strategy) noexcept;
  [[nodiscard]] bool arena_is_gone(ArenaNumber number) const noexcept {
    return std::ranges::find(gone_, number) != gone_.end();
  }
  /// Return true if nothing is missing to cancel the ticket of the entry.
  [[nodiscard]] bool can_cancel(const MessageEntry& entry);
  void cancel(const MessageEntry& entry) noexcept;
  /// The arena of a ring if it is gone.
  [[nodiscard]] std::optional<ArenaNumber> gone_arena(const RingRecord& ring) const noexcept {
    const std::optional<NamedTicket> named = ring.ticket.read();
    return named && arena_is_gone(named->arena) ? std::optional(named->arena) : std::nullopt;
  }
  /// Return true if the bytes of a block on the host are mapped, so that nothing can fail after its
  /// ticket is claimed; also true if they, or the arena, cannot be mapped at all.
  [[nodiscard]] bool can_use(Arena* arena, const NamedTicket& named, Access access) noexcept;
  /// Maps what was missing, or notes that it is gone. Throws OsError, SessionError.
  void map_missing();
  /// Makes the ring that was missing. Throws OutOfMemory.
  void make_ring();

  Session& session_;
  QueueEnd* end_ = nullptr;     ///< of the attempt
  QueueEnd* locked_ = nullptr;  ///< the end that was locked between two attempts
  // Orphan arenas without a pin are unmapped when another arena is mapped, and a message needs two:
  // that of its ring and its own.
  PinnedArena* ring_arena_ = nullptr;  ///< of the queue's end
  PinnedArena pinned_;
  PinnedArena attached_;  ///< the one that was mapped last
  std::optional<ArenaNumber> missing_;
  Strategy strategy_ = Strategy::file_descriptor;  ///< of the missing arena
  std::vector<ArenaNumber> gone_;                  ///< arenas that no process has open
  ArenaNumber block_arena_ = 0;
  BlockNumber block_ = kNoBlock;  ///< of which the bytes were mapped
  Access access_ = Access::read_write;
  std::uint32_t entries_ = 0;  ///< of the missing ring
  HeldBlock ring_;             ///< a new ring
  HeldBlock used_ring_;        ///< a new ring that belongs to the queue; released after the lock
};

}  // namespace shmtensor
