// The one way in which a block becomes free.
#pragma once

#include "arena/segment.hpp"
#include "arena/session_memory.hpp"

namespace shmtensor {

/// Frees the block if no ticket for it is live and no holder bit is set. True for the one process
/// that freed it; that process tells the owner. Everybody else leaves it: whoever still holds the
/// block, or claims a ticket for it, tries again when done.
///
/// The order of the looks is the protocol, see docs/design/block.md: the word, then tickets, then
/// holder bits, then a compare-and-swap of the word as it was read.
[[nodiscard]] bool try_free(const Segment& segment, BlockNumber block,
                            const SessionMemory& memory) noexcept;

/// Is a ticket for this generation of the block live? True also when that cannot be told.
[[nodiscard]] bool in_flight(const Segment& segment, BlockNumber block, Generation generation,
                             const SessionMemory& memory) noexcept;

/// Does any slot hold the block?
[[nodiscard]] bool has_holder(const Segment& segment, BlockNumber block) noexcept;

/// Puts an arena right after a death: clears the bits of the dead slot (kNoSlot: of none), and
/// tries every block that nobody holds, because the dead process may have been killed between
/// clearing its bit and trying. Calls `freed(block)` for each block that this frees. May be
/// repeated.
template <typename Freed>
void sweep(const Segment& segment, const SessionMemory& memory, SlotNumber dead, Freed&& freed) {
  const std::uint32_t capacity = segment.capacity();
  const bool has_bits = dead != kNoSlot && segment.has_plane(dead);
  for (BlockNumber block = 0; block < capacity; ++block) {
    if (has_bits) {
      std::atomic<std::uint64_t>& holders = segment.holders(plane_of(dead), block);
      if ((holders.load() & bit_of(dead)) != 0) holders.fetch_and(~bit_of(dead));
    }
    if (!has_holder(segment, block) && try_free(segment, block, memory)) freed(block);
  }
}

}  // namespace shmtensor
