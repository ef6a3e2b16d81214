// Decides whether a block is free, and frees it.
#pragma once

#include <bit>

#include "arena/segment.hpp"
#include "arena/session_memory.hpp"
#include "arena/slot_set.hpp"

namespace shmtensor {

/// Frees the block if it has no live ticket and no holder bit. Returns true in the one process that
/// freed it, which notifies the owner. Other processes do nothing: a process that still holds the
/// block, or claims a ticket for it, tries again when it releases the block.
///
/// The order of the reads is part of the protocol, see docs/design/block.md: the word, then
/// tickets, then holder bits, then a compare-and-swap of the word with the value that was read.
[[nodiscard]] bool try_free(const Segment& segment, BlockNumber block,
                            const SessionMemory& memory) noexcept;

/// Return true if a ticket for this generation of the block is live. Also true if that cannot be
/// determined.
[[nodiscard]] bool in_flight(const Segment& segment, BlockNumber block, Generation generation,
                             const SessionMemory& memory) noexcept;

/// Return true if any slot holds the block.
[[nodiscard]] bool has_holder(const Segment& segment, BlockNumber block) noexcept;

/// Repairs an arena after processes have died: clears the bits of the dead slots, and tries to free
/// every block without a holder, because a process may have been killed after it cleared its bit
/// and before it tried. Calls `freed(block)` for each block that this frees. May be repeated.
template <typename Freed>
void sweep(const Segment& segment, const SessionMemory& memory, const SlotSet& dead,
           Freed&& freed) {
  const std::uint32_t capacity = segment.capacity();
  // Also in a retired plane: a process that prepares a fork may set bits for a child whose slot the
  // manager has cancelled.
  const std::uint32_t concerned = segment.planes_made() & dead.planes();
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
