// Decides whether a block is free, and frees it.
#pragma once

#include <bit>
#include <cstdint>

#include "arena/segment.hpp"
#include "arena/session_memory.hpp"
#include "arena/slot_set.hpp"
#include "base/atomic.hpp"

namespace shmtensor {

/// What became of a block that a process tried to free.
enum class FreeResult : std::uint8_t {
  none,      ///< it is in use, or another process freed it
  freed,     ///< by this process, which notifies the owner
  draining,  ///< by this process, which lets the manager cancel the tickets that the block contains
};

/// Frees the block if it has no live ticket and no holder bit; a block that contains tickets begins
/// to drain. A process that still holds the block, or claims a ticket for it, tries again when it
/// releases the block.
///
/// The order of the reads is part of the protocol, see docs/design/blocks.md: the word, then holder
/// bits, tickets, and holder bits again, then a compare-and-swap of the word with the value that
/// was read.
[[nodiscard]] FreeResult try_free(const Segment& segment, BlockNumber block,
                                  const SessionMemory& memory) noexcept;

/// Return true if a ticket for this generation of the block is live. Also true if that cannot be
/// determined.
[[nodiscard]] bool in_flight(const Segment& segment, BlockNumber block, Generation generation,
                             const SessionMemory& memory) noexcept;

/// Return true if any slot holds the block.
[[nodiscard]] bool has_holder(const Segment& segment, BlockNumber block) noexcept;

/// Return true if another slot holds the block, or a ticket for it is live. Also true if that
/// cannot be determined.
[[nodiscard]] bool is_used_elsewhere(const Segment& segment, BlockNumber block, SlotNumber own,
                                     const SessionMemory& memory) noexcept;

/// Returns true if the block is live, and stays so until its holder bits are cleared, of which the
/// caller has seen one: a process that read them before the bit was set fails to free the block.
[[nodiscard]] bool keep_live(const Segment& segment, BlockNumber block) noexcept;

/// Repairs an arena after processes have died: clears the bits of the dead slots, and tries to free
/// every block without a holder, because a process may have been killed after it cleared its bit
/// and before it tried. Calls `lost(block)` before it clears the bits of dead slots on a live block
/// that contains tickets, and `unused(block, result)` for each block that this frees, or that
/// drains.
/// May be repeated.
template <typename Lost, typename Unused>
void sweep(const Segment& segment, const SessionMemory& memory, const SlotSet& dead, Lost&& lost,
           Unused&& unused) {
  const std::uint32_t capacity = segment.capacity();
  const std::uint32_t concerned = segment.planes() & dead.planes();
  for (BlockNumber block = 0; block < capacity; ++block) {
    for (std::uint32_t planes = concerned; planes != 0; planes &= planes - 1) {
      const auto plane = static_cast<std::uint32_t>(std::countr_zero(planes));
      const std::uint64_t bits = dead.in_plane(plane);
      Atomic<std::uint64_t>& holders = segment.holders(plane, block);
      if ((holders.load() & bits) == 0) continue;
      if (segment.record(block).contents.load() != 0 && keep_live(segment, block)) lost(block);
      holders.fetch_and(~bits);
    }
    const BlockWord word(segment.record(block).word.load());
    if (word.is_draining()) {
      // Also with a holder bit: it is of a process that tries a stale handle, and clears it.
      unused(block, FreeResult::draining);
      continue;
    }
    const FreeResult result = try_free(segment, block, memory);
    if (result != FreeResult::none) unused(block, result);
  }
}

}  // namespace shmtensor
