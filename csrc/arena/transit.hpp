// The tickets of unread messages. Each sender has a ticket table in the session's shared memory, so
// tickets outlive the process that issued them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/atomic.hpp"
#include "base/ids.hpp"
#include "os/prefetch.hpp"
#include "os/spin_lock.hpp"

namespace shmtensor {

/// A reference to a block in one unread message: a bit of a group.
struct Ticket {
  SlotNumber sender = kNoSlot;
  std::uint8_t bit = 0;
  std::uint32_t group = 0;
  std::uint32_t serial = 0;
};

/// A ticket and the block that it keeps allocated.
struct NamedTicket {
  ArenaNumber arena = 0;
  BlockNumber block = 0;
  Generation generation = 0;
  Ticket ticket;
};

/// What ends a ticket that no process claims, beside its sender.
enum class TicketOf : std::uint8_t {
  message,    ///< `gc`, by its age
  name,       ///< the removal of the name; `TransitTable::keep` follows
  arguments,  ///< the end of the sender, a process that starts another one
};

/// Up to 32 tickets of one sender for one generation of one block. While `serial` is constant, so
/// are block and generation. A group is linked into its bucket before its first ticket is
/// published, and stays linked while a ticket is live.
struct TicketGroup {
  Atomic<std::uint64_t> word;   ///< serial:32 | a bit for each live ticket:32
  Atomic<std::uint64_t> block;  ///< arena:32 | block:32
  Atomic<std::uint64_t> mark;   ///< generation:32 | second of the last send:32
  Atomic<std::uint64_t> next;   ///< link to the next group of the bucket

  /// Stored instead of the second: the tickets have no age. They belong to a queue, or, from
  /// `kFirstKept` on, to the object of a name (`NameTable::mark_of`).
  static constexpr std::uint32_t kKept = 0xffffffff;
  static constexpr std::uint32_t kFirstKept = 0xffff0000;
  /// Instead of the second: the tickets end with their sender. Their age is always 0.
  static constexpr std::uint32_t kOfSender = 0x7fffffff;
  [[nodiscard]] static constexpr bool is_kept(std::uint32_t second) noexcept {
    return second >= kFirstKept;
  }
  [[nodiscard]] bool kept() const noexcept {
    return is_kept(static_cast<std::uint32_t>(mark.load()));
  }
};
static_assert(sizeof(TicketGroup) == 32);

constexpr std::uint32_t serial_of(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word >> 32);
}

/// The shared part of a sender's table: a hash table from blocks to chains of groups. A link is
/// (index + 1):32 | the serial of the group when it was linked:32; zero ends the chain.
///
/// Processes: only the sender writes (TransitWriter); every process may search and claim.
struct TransitTable {
  static constexpr std::uint32_t kBuckets = 1u << 16;
  static constexpr std::uint32_t kGroups = 1u << 20;
  static constexpr std::uint32_t kStride = 64 * 1024;  ///< pages are reserved in units of this size

  alignas(kStride) Atomic<std::uint32_t> group_count;  ///< number of groups that have been
                                                       ///< used
  alignas(kStride) Atomic<std::uint64_t> buckets[kBuckets];
  alignas(kStride) TicketGroup groups[kGroups];

  static constexpr std::uint64_t block_key(ArenaNumber arena, BlockNumber block) noexcept {
    return std::uint64_t{arena} << 32 | block;
  }
  // Neighbouring blocks share cache lines and pages; arenas begin at scattered buckets.
  static constexpr std::uint32_t bucket_of(std::uint64_t key) noexcept {
    return (static_cast<std::uint32_t>(key) + static_cast<std::uint32_t>(key >> 32) * 0x9e3779b1u) %
           kBuckets;
  }

  /// Return true if a ticket for this generation of the block is live. Also true if the chain is
  /// invalid: then the block is not freed.
  [[nodiscard]] bool has_live(ArenaNumber arena, BlockNumber block,
                              Generation generation) const noexcept;

  /// Consumes the ticket if it is live and belongs to this block. Exactly one of several claimers
  /// succeeds.
  bool claim(const Ticket& ticket, ArenaNumber arena, BlockNumber block,
             Generation generation) noexcept {
    if (ticket.group >= kGroups || ticket.group >= group_count.load()) return false;
    TicketGroup& group = groups[ticket.group];
    const std::uint64_t bit = std::uint64_t{1} << ticket.bit % 32;
    std::uint64_t word = group.word.load();
    while (serial_of(word) == ticket.serial && (word & bit) != 0) {
      // Block and mark are constant while the serial is. So if the serial is the same before and
      // after, both values were read from the same state of the group.
      if (group.block.load() != block_key(arena, block) ||
          static_cast<Generation>(group.mark.load() >> 32) != generation) {
        return false;
      }
      if (group.word.compare_exchange_weak(word, word & ~bit)) return true;
    }
    return false;
  }

  bool claim(const NamedTicket& named) noexcept {
    return claim(named.ticket, named.arena, named.block, named.generation);
  }

  /// Begins to fetch what a claim of the ticket writes.
  void prefetch(const Ticket& ticket) const noexcept {
    prefetch_to_write(&groups[ticket.group % kGroups]);
  }

  /// Return true if the ticket is live and belongs to its block.
  [[nodiscard]] bool is_live(const NamedTicket& named) const noexcept;

  /// Makes the tickets of this ticket's group persistent: `mark` is that of a name, whose object
  /// they belong to. The group must have been issued for a name. May be repeated.
  void keep(const Ticket& ticket, std::uint32_t mark) noexcept;

  /// For a sender that has ended: cancels the tickets that end with it. A sweep of the arenas frees
  /// their blocks. May be repeated.
  void end_sender() noexcept;

  [[nodiscard]] bool any_live() const noexcept {
    const std::uint32_t count = std::min(group_count.load(), kGroups);
    return std::any_of(groups, groups + count, [](const TicketGroup& group) {
      return static_cast<std::uint32_t>(group.word.load()) != 0;
    });
  }
  /// Calls `visit(index, group, live bits)` for the groups with live tickets.
  template <typename Visit>
  void for_each_live(Visit&& visit) {
    const std::uint32_t count = std::min(group_count.load(), kGroups);
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto live = static_cast<std::uint32_t>(groups[i].word.load());
      if (live != 0) visit(i, groups[i], live);
    }
  }
};

class SessionMemory;
struct TicketRecord;

/// The sender's side.
/// Threads: several may call `issue`; `lock` is public for the fork handler.
class TransitWriter {
 public:
  /// Adopts the live tickets of an earlier process in the same slot.
  TransitWriter(const SessionMemory& memory, SlotNumber sender);

  /// Publishes a ticket for a block that this process holds. Only tickets of messages share a
  /// group. Throws OutOfMemory.
  [[nodiscard]] Ticket issue(ArenaNumber arena, BlockNumber block, Generation generation,
                             TicketOf of = TicketOf::message);
  /// The same for a ticket that is named in a record, which is written before the ticket is
  /// published. It is kept until the record's queue is freed. Throws OutOfMemory.
  Ticket issue(ArenaNumber arena, BlockNumber block, Generation generation, TicketRecord& record);

  /// Makes sure that other processes can search for the block's tickets. Throws OutOfMemory.
  void reserve(ArenaNumber arena, BlockNumber block);
  /// Begins to fetch what `issue` writes: first the bucket of the block, then, by that, the group.
  /// The bucket is reserved.
  void prefetch_bucket(ArenaNumber arena, BlockNumber block) const noexcept;
  void prefetch_group(ArenaNumber arena, BlockNumber block) const noexcept;

  [[nodiscard]] SpinLock& lock() noexcept { return lock_; }

 private:
  struct Private {
    std::uint32_t issued = 0xffffffff;  ///< bits issued since the group was linked
    bool spare = false;                 ///< on the spare list, not linked
    bool alone = false;                 ///< with the ticket for which it was taken
  };

  /// A ticket that is not published yet. `second` is that of the send, or a constant of
  /// TicketGroup.
  [[nodiscard]] Ticket prepare(std::uint64_t key, Generation generation, std::uint32_t second,
                               bool alone) REQUIRES(lock_);
  void publish(const Ticket& ticket) noexcept REQUIRES(lock_);
  [[nodiscard]] Atomic<std::uint64_t>& bucket_of(std::uint64_t key) REQUIRES(lock_);
  [[nodiscard]] std::uint32_t find_group(std::uint64_t first, std::uint64_t key,
                                         Generation generation) const noexcept REQUIRES(lock_);
  std::uint32_t take_group(Atomic<std::uint64_t>& bucket) REQUIRES(lock_);
  void unlink(std::uint32_t index) noexcept REQUIRES(lock_);
  [[nodiscard]] bool is_consumed(std::uint32_t index) const noexcept REQUIRES(lock_);
  void reserve_stride(std::uint64_t offset_in_table) REQUIRES(lock_);

  const SessionMemory& memory_;
  TransitTable& table_;
  SlotNumber sender_;
  SpinLock lock_;
  std::vector<Private> private_ GUARDED_BY(lock_);
  std::vector<std::uint32_t> spare_ GUARDED_BY(lock_);
  std::vector<bool> reserved_ GUARDED_BY(lock_);  // parts of the table whose pages exist
  std::uint32_t hand_ GUARDED_BY(lock_) = 0;      // where the search for consumed groups continues
};

}  // namespace shmtensor
