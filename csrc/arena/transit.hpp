// Messages in flight. Each sender has a transit table in the session's shared memory, so a ticket
// outlives the process that wrote it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "base/ids.hpp"
#include "os/spin_lock.hpp"

namespace shmtensor {

/// One message in flight that refers to a block: a bit in a group.
struct Ticket {
  SlotNumber sender = kNoSlot;
  std::uint8_t bit = 0;
  std::uint32_t group = 0;
  std::uint32_t serial = 0;
};

/// Up to 32 tickets of one sender for one generation of one block. While `serial` stays the same,
/// so do block and generation; a group is linked into its bucket before its first ticket is
/// published and stays linked while a ticket is live.
struct TicketGroup {
  std::atomic<std::uint64_t> word;   ///< serial:32 | a bit for each live ticket:32
  std::atomic<std::uint64_t> block;  ///< arena:32 | block:32
  std::atomic<std::uint64_t> mark;   ///< generation:32 | second of the last send:32
  std::atomic<std::uint64_t> next;   ///< link to the next group of the bucket

  /// In place of the second: the tickets are kept for a published name and have no age.
  static constexpr std::uint32_t kKept = 0xffffffff;
  [[nodiscard]] bool kept() const noexcept {
    return static_cast<std::uint32_t>(mark.load()) == kKept;
  }
};
static_assert(sizeof(TicketGroup) == 32);

constexpr std::uint32_t serial_of(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word >> 32);
}

/// The shared part of a sender's table: a hash of blocks to chains of groups. A link is
/// (index + 1):32 | the serial that the group had when it was linked:32; zero ends the chain.
///
/// Processes: one writer, the sender (TransitWriter); everybody looks up and claims.
struct TransitTable {
  static constexpr std::uint32_t kBuckets = 1u << 16;
  static constexpr std::uint32_t kGroups = 1u << 20;
  static constexpr std::uint32_t kStride =
      64 * 1024;  ///< pages are reserved in pieces of this size

  alignas(kStride) std::atomic<std::uint32_t> group_count;  ///< groups ever used
  alignas(kStride) std::atomic<std::uint64_t> buckets[kBuckets];
  alignas(kStride) TicketGroup groups[kGroups];

  static constexpr std::uint64_t block_key(ArenaNumber arena, BlockNumber block) noexcept {
    return std::uint64_t{arena} << 32 | block;
  }
  // Neighbouring blocks share cache lines and pages; arenas start at scattered places.
  static constexpr std::uint32_t bucket_of(std::uint64_t key) noexcept {
    return (static_cast<std::uint32_t>(key) + static_cast<std::uint32_t>(key >> 32) * 0x9e3779b1u) %
           kBuckets;
  }

  /// Is there a live ticket for this generation of the block? True also when the chain makes no
  /// sense (then the block stays, which is the harmless side).
  [[nodiscard]] bool has_live(ArenaNumber arena, BlockNumber block,
                              Generation generation) const noexcept;

  /// Takes the ticket if it is live and for this block. One of all claimers succeeds.
  bool claim(const Ticket& ticket, ArenaNumber arena, BlockNumber block,
             Generation generation) noexcept {
    if (ticket.group >= kGroups || ticket.group >= group_count.load()) return false;
    TicketGroup& group = groups[ticket.group];
    const std::uint64_t bit = std::uint64_t{1} << ticket.bit % 32;
    std::uint64_t word = group.word.load();
    while (serial_of(word) == ticket.serial && (word & bit) != 0) {
      // Constant while the serial is: reading them between two looks at the word is reading them at
      // the same time.
      if (group.block.load() != block_key(arena, block) ||
          static_cast<Generation>(group.mark.load() >> 32) != generation) {
        return false;
      }
      if (group.word.compare_exchange_weak(word, word & ~bit)) return true;
    }
    return false;
  }

  /// The tickets of this one's group are no message from now on: they have no age. The group must
  /// have been issued for that. May be repeated.
  void keep(const Ticket& ticket) noexcept;

  /// Groups that hold live tickets: `visit(index, group, live bits)`.
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

/// The sender's side.
/// Threads: `issue` may be called by several; `lock` is public for the fork handler.
class TransitWriter {
 public:
  /// Takes over what an earlier process with the same slot left live.
  TransitWriter(const SessionMemory& memory, SlotNumber sender);

  /// Publishes a ticket for a block that this process holds. One `to_keep` shares its group with
  /// none that is not. Throws OutOfMemory.
  [[nodiscard]] Ticket issue(ArenaNumber arena, BlockNumber block, Generation generation,
                             bool to_keep = false);

  /// Makes sure that others can look for the block's tickets. Throws OutOfMemory.
  void reserve(ArenaNumber arena, BlockNumber block);

  [[nodiscard]] SpinLock& lock() noexcept { return lock_; }

 private:
  struct Private {
    std::uint32_t issued = 0xffffffff;  ///< bits given out since the group was linked
    bool spare = false;                 ///< on the spare list, not linked
    bool to_keep = false;               ///< its tickets are, or will be, kept
  };

  [[nodiscard]] std::atomic<std::uint64_t>& bucket_of(std::uint64_t key);
  [[nodiscard]] std::uint32_t find_group(std::uint64_t first, std::uint64_t key,
                                         Generation generation) const noexcept;
  std::uint32_t take_group();
  void unlink(std::uint32_t index) noexcept;
  [[nodiscard]] bool spent(std::uint32_t index) const noexcept;
  void reserve_piece(std::uint64_t offset_in_table);

  const SessionMemory& memory_;
  TransitTable& table_;
  SlotNumber sender_;
  SpinLock lock_;
  std::vector<Private> private_;
  std::vector<std::uint32_t> spare_;
  std::vector<bool> reserved_;  // pieces of the table whose pages exist
  std::uint32_t hand_ = 0;      // where to look next for spent groups
};

}  // namespace shmtensor
