// The one way in which a block becomes free.
#pragma once

#include <bit>

#include "arena/segment.hpp"
#include "arena/session_memory.hpp"
#include "arena/slot_set.hpp"

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

/// Puts an arena right after deaths: clears the bits of the dead slots, and tries every block that
/// nobody holds, because a dead process may have been killed between clearing its bit and trying.
/// Calls `freed(block)` for each block that this frees. May be repeated.
template <typename Freed>
void sweep(const Segment& segment, const SessionMemory& memory, const SlotSet& dead,
           Freed&& freed) {
  const std::uint32_t capacity = segment.capacity();
  const std::uint32_t concerned = segment.planes() & dead.planes();
  for (BlockNumber block = 0; block < capacity; ++block) {
    for (std::uint32_t planes = concerned; planes != 0; planes &= planes - 1) {
      const auto plane = static_cast<std::uint32_t>(std::countr_zero(planes));
      const std::uint64_t bits = dead.in_plane(plane);
      std::atomic<std::uint64_t>& holders = segment.holders(plane, block);
      if ((holders.load() & bits) != 0) holders.fetch_and(~bits);
    }
    if (!has_holder(segment, block) && try_free(segment, block, memory)) freed(block);
  }
}

}  // namespace shmtensor
