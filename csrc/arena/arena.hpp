// An arena in this process: the block protocol, applied to a segment.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "arena/allocator.hpp"
#include "arena/block_order.hpp"
#include "arena/budget.hpp"
#include "arena/data_segment.hpp"
#include "arena/local_table.hpp"
#include "arena/member.hpp"
#include "arena/segment.hpp"
#include "arena/session_memory.hpp"
#include "arena/ticket_record.hpp"
#include "arena/transit.hpp"
#include "arena/yielding_lock.hpp"
#include "base/atomic.hpp"
#include "os/mutex.hpp"

namespace shmtensor {

/// Threads: all members may be called simultaneously.
/// Processes: only the owner allocates; every process may hold, send and release.
class Arena {
 public:
  /// Memory that no block has used for this long is returned to the system.
  static constexpr std::uint64_t kIdleMilliseconds = 10'000;

  /// `budget` belongs to an arena that this process owns; null for an arena of a peer. `data` maps
  /// the memory of the segment's blocks; null: they are in the segment's file.
  Arena(std::unique_ptr<Segment> segment, const Member& member, Budget* budget,
        std::unique_ptr<DataSegment> data = nullptr);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  [[nodiscard]] const Segment& segment() const noexcept { return *segment_; }
  [[nodiscard]] DataSegment& data() const noexcept { return *data_; }
  [[nodiscard]] bool owned() const noexcept { return allocator_ != nullptr; }
  /// What a layer above keeps with the arena, and guards itself.
  [[nodiscard]] std::shared_ptr<void>& companion() noexcept { return companion_; }

  // --- for the owner ---

  /// Allocates a block with one reference, without a system call. Nothing if that is not possible,
  /// or if another thread has locked the bookkeeping: a caller that holds the GIL must not wait for
  /// the lock.
  [[nodiscard]] std::optional<BlockNumber> allocate_warm(std::uint64_t size);
  /// Like `allocate_warm`, but grows the arena. Nothing if the arena is full. Throws OutOfMemory if
  /// memory is short. The kernel may need long; `allocate_warm` and releases in other threads are
  /// not blocked in that time.
  [[nodiscard]] std::optional<BlockNumber> allocate(std::uint64_t size);
  /// Reclaims blocks that other processes freed or that killed processes left, and releases idle
  /// extents to the system.
  void collect(std::uint64_t idle_milliseconds);
  [[nodiscard]] std::uint64_t reserved() const noexcept;
  /// Return true if no block is allocated here, hence none is held or in a message, and no page of
  /// data is reserved. False if another thread has locked the bookkeeping.
  [[nodiscard]] bool is_empty() noexcept;
  /// Return true if idle pages are to be released to the system. The caller then calls
  /// `trim_in_passing` without the GIL.
  [[nodiscard]] bool trim_is_due() const noexcept {
    return trim_is_due_.load(std::memory_order_relaxed);
  }
  void trim_in_passing(std::uint64_t idle_milliseconds = kIdleMilliseconds) noexcept;

  // --- for every process ---

  /// Makes this process a holder of a block that a message names, under the lock of the block's
  /// entry. `transit` is the table of the ticket's sender; without one, the ticket is not consumed.
  /// Returns false if the block was freed; the caller must then call `unpin_and_try_free` after it
  /// releases the lock.
  [[nodiscard]] bool hold(LocalTable::Lock& lock, const NamedTicket& named,
                          TransitTable* transit) noexcept {
    const BlockNumber block = named.block;
    if (lock.count() == 0 || !member_.has_slot() ||
        !BlockWord(segment_->record(block).word.load()).live_at_generation(named.generation)) {
      return hold_first(lock, named, transit);
    }
    if (transit != nullptr) transit->claim(named);
    lock.set_count(lock.count() + 1);
    return true;
  }
  /// The same for the message of a queue, of which another process may have claimed the ticket:
  /// returns true only to the one that claims it.
  [[nodiscard]] bool take(LocalTable::Lock& lock, const NamedTicket& named,
                          TransitTable& transit) noexcept;
  /// Begins to fetch what other processes have written and `hold` uses. Of many blocks, to be
  /// called some blocks ahead.
  void prefetch_hold(const NamedTicket& named) const noexcept;
  /// Frees the block if it is unused, and removes the pin of its holder.
  void unpin_and_try_free(BlockNumber block) noexcept;

  /// Releases one reference. The last one clears the holder bit and tries to free the block.
  void release(BlockNumber block) noexcept {
    if (!local_.drop_one_of_many(block)) release_last(block);
  }
  /// The same for a caller that has locked the entry. Returns true if the caller must call
  /// `unpin_and_try_free` after it releases the lock.
  [[nodiscard]] bool release(LocalTable::Lock& lock, BlockNumber block) noexcept;

  /// Publishes a ticket for a block that this process holds; see TransitWriter::issue. Throws
  /// OutOfMemory.
  [[nodiscard]] Ticket send(BlockNumber block, TicketOf of = TicketOf::message);
  /// The same with a ticket that is named in a record, in a block that this process holds.
  Ticket send(BlockNumber block, TicketRecord& record);
  /// Before `send`: begins to fetch what other processes have written there, in two steps. Of many
  /// blocks, to be called for all before the next step. Throws OutOfMemory, in the first one.
  void prefetch_send(BlockNumber block);
  void prefetch_ticket(BlockNumber block) const;
  /// Declares, or with an empty value revokes, that a block of this process contains ticket
  /// records. Their names are cleared; no other process knows the block yet, or still knows it.
  void set_contents(BlockNumber block, const TicketContents& contents) noexcept {
    segment_->record(block).contents.store(contents.bits());
  }
  [[nodiscard]] TicketContents contents(BlockNumber block) const noexcept {
    return TicketContents::of(segment_->record(block).contents.load(std::memory_order_relaxed));
  }
  [[nodiscard]] bool contains_tickets(BlockNumber block) const noexcept {
    return segment_->record(block).contents.load(std::memory_order_relaxed) != 0;
  }
  /// Cancels a ticket that no process will read. Throws OsError, SessionError if the table of
  /// another sender cannot be mapped.
  void cancel_send(BlockNumber block, Generation generation, const Ticket& ticket);

  [[nodiscard]] const LocalTable& local() const noexcept { return local_; }
  [[nodiscard]] const Member& member() const noexcept { return member_; }
  [[nodiscard]] const SessionMemory& memory() const noexcept { return member_.memory(); }
  [[nodiscard]] Generation generation(BlockNumber block) const noexcept;
  /// In bytes; any peer may change it at any time.
  [[nodiscard]] std::uint64_t size(BlockNumber block) const noexcept {
    return segment_->record(block).size.load(std::memory_order_relaxed);
  }
  /// Returns the block's bytes in this process. Any peer may change the block record at any time,
  /// so the address and size are read once, then checked. Throws SessionError if the record refers
  /// to bytes outside the segment.
  [[nodiscard]] std::span<std::byte> bytes(BlockNumber block, Access access) const;
  /// The same if it takes no call of the system or a driver; otherwise a span at null.
  [[nodiscard]] std::span<std::byte> bytes_at_once(BlockNumber block, Access access) const noexcept;
  /// For AddressMap, with its lock held: offers the objects of the held block at that offset, the
  /// writable one first, to `accept(object)`; returns the one that is accepted, or null. Throws
  /// std::bad_alloc.
  //
  // Blocks that this process holds do not overlap, so only the last one that begins before the
  // offset can contain it. Each block with an object has a place, since it is listed as changed
  // when it gets one. A place whose objects are not accepted may be outdated.
  template <typename Accept>
  [[nodiscard]] void* find_object(std::uint64_t offset, Accept&& accept) {
    order_changed();
    while (const std::optional<BlockOrder::Place> place = order_.last_until(offset)) {
      {
        const LocalTable::Lock lock(local_, place->block);
        for (const Access access : {Access::read_write, Access::read_only}) {
          void* const object = lock.object(access);
          if (object != nullptr && accept(object)) return object;
        }
      }
      if (!is_outdated(*place)) break;
      order_.erase(place->offset);
    }
    return nullptr;
  }
  /// Keeps the arena mapped while it is in use. Every held block also has a pin, until it is
  /// abandoned. With a single count, an arena is never unpinned between two uses.
  void pin() noexcept { pins_.fetch_add(1); }
  void unpin() noexcept { pins_.fetch_sub(1); }
  [[nodiscard]] bool in_use() const noexcept { return pins_.load() != 0; }
  /// Return true if this process holds any block. Reads every entry, during a fork, when no entry
  /// can change.
  [[nodiscard]] bool holds_any() const noexcept;

  // --- fork ---

  /// The order, across all arenas: lock, LocalTable::stop_locking, wait. The lock is held until
  /// `unlock_after_fork`, which the analysis cannot follow.
  void lock_for_fork() noexcept NO_THREAD_SAFETY_ANALYSIS { lock_.lock(); }
  void wait_for_fork() const noexcept;
  /// Makes the child a holder of all blocks that this process holds. Called between lock and
  /// unlock.
  void hold_for_child(SlotNumber child);
  void unlock_after_fork() noexcept NO_THREAD_SAFETY_ANALYSIS { lock_.unlock(); }
  /// Adds the arena to the front of the list of those that a fork locks. The arenas themselves are
  /// the list, since a fork must succeed without heap memory.
  void link_for_fork(Arena* next) noexcept {
    next_in_fork_ = next;
    in_fork_ = true;
  }
  /// Returns the next one of the list.
  Arena* unlink_after_fork() noexcept {
    in_fork_ = false;
    return std::exchange(next_in_fork_, nullptr);
  }
  [[nodiscard]] Arena* next_in_fork() const noexcept { return next_in_fork_; }
  [[nodiscard]] bool in_fork() const noexcept { return in_fork_; }
  /// In the child: marks the arena as not owned, and all blocks as unlocked.
  void disown() noexcept;
  /// Return true if a forked child can use the memory of the arena. It cannot use device memory, so
  /// it holds none.
  [[nodiscard]] bool survives_fork() const noexcept { return !is_on_device(segment_->strategy()); }

 private:
  static constexpr std::size_t kFewPlaces = 1024;

  bool hold_first(LocalTable::Lock& lock, const NamedTicket& named, TransitTable* transit) noexcept;
  void release_last(BlockNumber block) noexcept;
  void order_changed();
  [[nodiscard]] bool is_outdated(const BlockOrder::Place& place) const noexcept;
  BlockNumber activate(const NewBlock& made, std::uint64_t size) REQUIRES(lock_);
  void take_freed() REQUIRES(lock_);
  void compare_with_table() REQUIRES(lock_);
  void announce_sender(BlockNumber block);
  void change_epoch(BlockNumber block) noexcept;
  void try_free_block(BlockNumber block) noexcept;
  void note_operation() noexcept REQUIRES(lock_);

  std::unique_ptr<Segment> segment_;
  std::unique_ptr<DataSegment> data_;
  const Member& member_;
  LocalTable local_;
  Atomic<std::uint32_t> pins_{0};
  Atomic<bool> trim_is_due_{false};
  Arena* next_in_fork_ = nullptr;  // of the thread that forks, as is the next one
  bool in_fork_ = false;
  YieldingLock lock_;
  std::unique_ptr<Allocator> allocator_ PT_GUARDED_BY(lock_);
  std::uint64_t deaths_seen_ GUARDED_BY(lock_) = 0;
  std::uint64_t trim_at_ GUARDED_BY(lock_) = 0;  // not before this time
  bool trimming_ GUARDED_BY(lock_) = false;      // the last step left idle memory
  std::uint32_t operations_ GUARDED_BY(lock_) = 0;
  // Of the blocks with objects, as of the last look-up. Protected by the lock of AddressMap.
  BlockOrder order_;
  std::size_t sweep_at_ = kFewPlaces;
  std::shared_ptr<void> companion_;
};

}  // namespace shmtensor
