// An arena as this process sees it: the block protocol over a segment.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "arena/allocator.hpp"
#include "arena/budget.hpp"
#include "arena/data.hpp"
#include "arena/local_table.hpp"
#include "arena/segment.hpp"
#include "arena/session_memory.hpp"
#include "arena/transit.hpp"
#include "arena/yielding_lock.hpp"
#include "os/fork_mark.hpp"

namespace shmtensor {

/// This process as a member of a session.
/// Threads: all members may be called at the same time, but for `become`.
class Member {
 public:
  Member(const SessionMemory& memory, SlotNumber slot) noexcept : memory_(memory), slot_(slot) {}
  ~Member() { delete writer_.load(); }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  [[nodiscard]] const SessionMemory& memory() const noexcept { return memory_; }
  [[nodiscard]] SlotNumber slot() const noexcept { return slot_; }
  /// Made at the first send. Throws OutOfMemory.
  [[nodiscard]] TransitWriter& writer() const;

  void lock_for_fork() noexcept;
  void unlock_after_fork() noexcept;
  /// The forked child's new identity; kNoSlot when it could get none. Then nothing that it
  /// inherited is protected, and nothing of it may be released: the bits are the parent's.
  void become(SlotNumber slot) noexcept;
  /// Return true if nothing of this process is protected: it has no slot, or is a raw copy of the
  /// one that has.
  [[nodiscard]] bool lost() const noexcept { return slot_ == kNoSlot || is_raw_copy(); }
  /// Throws SessionError when this process is lost: there are no bits that it could set.
  void require_slot() const {
    if (lost()) throw_lost();
  }

 private:
  [[noreturn]] static void throw_lost();

  const SessionMemory& memory_;
  SlotNumber slot_;
  mutable std::atomic<TransitWriter*> writer_{nullptr};
  TransitWriter* locked_for_fork_ = nullptr;
};

/// Threads: all members may be called at the same time.
/// Processes: only the owner allocates; anybody holds, sends and releases.
class Arena {
 public:
  /// Host memory. `budget` for an arena that this process owns, null for a peer's.
  Arena(std::unique_ptr<Segment> segment, const Member& member, Budget* budget);
  /// Any other: `data` reaches what the segment's blocks are in.
  Arena(std::unique_ptr<Segment> segment, std::unique_ptr<Data> data, const Member& member,
        bool owned);

  [[nodiscard]] const Segment& segment() const noexcept { return *segment_; }
  [[nodiscard]] Data& data() const noexcept { return *data_; }
  [[nodiscard]] bool owned() const noexcept { return allocator_ != nullptr; }

  // --- the owner's ---

  /// A live block with one reference, without a system call. Nothing when that is not possible, or
  /// when another thread has the bookkeeping: a caller that holds the GIL must not wait for it.
  [[nodiscard]] std::optional<BlockNumber> allocate_warm(std::uint64_t size);
  /// The same, growing the arena. Nothing when it is full. Throws OutOfMemory when memory is short.
  /// May take the kernel long, but keeps neither `allocate_warm` nor a release from its work.
  [[nodiscard]] std::optional<BlockNumber> allocate(std::uint64_t size);
  /// Takes back what others freed, finds what kills lost, gives idle extents to the system.
  void collect(std::uint64_t idle_milliseconds);
  [[nodiscard]] std::uint64_t reserved() const noexcept;
  /// Return true if idle pages are to go back to the system: then `trim_in_passing` is to be
  /// called, without the GIL.
  [[nodiscard]] bool trim_is_due() const noexcept {
    return trim_is_due_.load(std::memory_order_relaxed);
  }
  void trim_in_passing() noexcept;

  // --- everybody's ---

  /// Makes this process a holder, under the entry's lock, for a handle that was received. False
  /// when the handle is stale: then `abandon` must be called once the lock is given back. `transit`
  /// is the table of the ticket's sender.
  [[nodiscard]] bool hold(LocalTable::Lock& lock, BlockNumber block, Generation generation,
                          const Ticket& ticket, TransitTable& transit) noexcept {
    if (lock.count() == 0 || member_.lost() ||
        !BlockWord(segment_->record(block).word.load()).live_at_generation(generation)) {
      return hold_first(lock, block, generation, ticket, transit);
    }
    transit.claim(ticket, segment_->number(), block, generation);
    lock.set_count(lock.count() + 1);
    return true;
  }
  /// Frees the block if nobody needs it, and takes away the pin that its holder had.
  void abandon(BlockNumber block) noexcept;

  /// Drops one reference; the last one clears the holder bit and tries to free the block.
  void release(BlockNumber block) noexcept {
    if (!local_.drop_one_of_many(block)) release_last(block);
  }
  /// The same for a caller that has the entry locked: true when the caller must `abandon` the block
  /// after giving the lock back.
  [[nodiscard]] bool release(LocalTable::Lock& lock, BlockNumber block) noexcept;

  /// Publishes a ticket for a block that this process holds. Throws OutOfMemory.
  [[nodiscard]] Ticket send(BlockNumber block, bool to_keep = false);
  /// Takes a ticket back that nobody will read.
  void unsend(BlockNumber block, Generation generation, const Ticket& ticket) noexcept;

  [[nodiscard]] const LocalTable& local() const noexcept { return local_; }
  [[nodiscard]] const SessionMemory& memory() const noexcept { return member_.memory(); }
  [[nodiscard]] Generation generation(BlockNumber block) const noexcept;
  /// The block's bytes in this process. Any peer may change its record at any time, so address and
  /// size are what was checked, read once. Throws SessionError when the record points outside of
  /// what the segment holds.
  [[nodiscard]] std::span<std::byte> bytes(BlockNumber block, Access access) const;
  /// The same if it takes no call of the system or a driver, else at null.
  [[nodiscard]] std::span<std::byte> bytes_at_once(BlockNumber block, Access access) const noexcept;
  /// Keeps the arena mapped while it is looked at. Every block that is held has a pin, too, until
  /// it is abandoned: with one count, no moment lies between holding and letting go.
  void pin() noexcept { pins_.fetch_add(1); }
  void unpin() noexcept { pins_.fetch_sub(1); }
  [[nodiscard]] bool in_use() const noexcept { return pins_.load() != 0; }
  /// Is this process a holder of any block? For a fork, while no entry can change: looks at each.
  [[nodiscard]] bool holds_any() const noexcept;

  // --- fork ---

  /// In this order for all arenas: lock, LocalTable::stop_locking, wait.
  void lock_for_fork() noexcept { lock_.lock(); }
  void wait_for_fork() const noexcept;
  /// Makes the child a holder of everything that this process holds. Between lock and unlock.
  void hold_for_child(SlotNumber child);
  void unlock_after_fork() noexcept { lock_.unlock(); }
  /// In the child: it owns nothing of what it inherited, and none of its threads has locked a
  /// block.
  void disown() noexcept;
  /// Is what lies in it of use to a forked child? Device memory is not: the child holds none.
  [[nodiscard]] bool survives_fork() const noexcept { return !is_on_device(segment_->strategy()); }

 private:
  bool hold_first(LocalTable::Lock& lock, BlockNumber block, Generation generation,
                  const Ticket& ticket, TransitTable& transit) noexcept;
  void release_last(BlockNumber block) noexcept;
  BlockNumber activate(const Piece& piece, std::uint64_t size);
  void take_freed();
  void compare_with_table();
  void free_or_leave(BlockNumber block) noexcept;
  void note_operation() noexcept;

  std::unique_ptr<Segment> segment_;
  std::unique_ptr<Data> data_;
  const Member& member_;
  LocalTable local_;
  std::atomic<std::uint32_t> pins_{0};
  std::atomic<bool> trim_is_due_{false};
  YieldingLock lock_;  // guards what follows
  std::unique_ptr<Allocator> allocator_;
  std::uint64_t deaths_seen_ = 0;
  std::uint64_t trim_at_ = 0;  // not before
  bool trimming_ = false;      // there is more
  std::uint32_t operations_ = 0;
};

}  // namespace shmtensor
