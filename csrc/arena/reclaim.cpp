#include "arena/reclaim.hpp"

#include <bit>
#include <exception>

#include "arena/ticket_record.hpp"
#include "base/report.hpp"

namespace shmtensor {

bool in_flight(const Segment& segment, BlockNumber block, Generation generation,
               const SessionMemory& memory) noexcept {
  try {
    for (std::uint32_t planes = segment.planes(); planes != 0; planes &= planes - 1) {
      const auto plane = static_cast<std::uint32_t>(std::countr_zero(planes));
      std::uint64_t senders = segment.senders(plane, block).load();
      for (; senders != 0; senders &= senders - 1) {
        const auto sender = static_cast<SlotNumber>(
            plane * 64 + static_cast<std::uint32_t>(std::countr_zero(senders)));
        if (memory.transit(sender).has_live(segment.number(), block, generation)) return true;
      }
    }
    return false;
  } catch (const std::exception& error) {
    // A ticket table cannot be mapped. The manager, which has it mapped, tries again.
    if (!memory.postpone_free()) report("cannot free a block: ", error.what());
    return true;
  }
}

bool has_holder(const Segment& segment, BlockNumber block) noexcept {
  for (std::uint32_t planes = segment.planes(); planes != 0; planes &= planes - 1) {
    const auto plane = static_cast<std::uint32_t>(std::countr_zero(planes));
    if (segment.holders(plane, block).load() != 0) return true;
  }
  return false;
}

// A process sets its bit before it claims a ticket, so one of the two is found.
bool is_used_elsewhere(const Segment& segment, BlockNumber block, SlotNumber own,
                       const SessionMemory& memory) noexcept {
  const BlockWord word(segment.record(block).word.load());
  if (in_flight(segment, block, word.generation(), memory)) return true;
  for (std::uint32_t planes = segment.planes(); planes != 0; planes &= planes - 1) {
    const auto plane = static_cast<std::uint32_t>(std::countr_zero(planes));
    const std::uint64_t mine = plane == plane_of(own) ? bit_of(own) : 0;
    if ((segment.holders(plane, block).load() & ~mine) != 0) return true;
  }
  return false;
}

// The bit may be on a free block: that of a process that was killed while it resolved a stale
// handle.
bool keep_live(const Segment& segment, BlockNumber block) noexcept {
  Atomic<std::uint64_t>& state = segment.record(block).word;
  std::uint64_t word = state.load();
  while (BlockWord(word).live()) {
    if (state.compare_exchange_weak(word, BlockWord(word).next_epoch().bits())) return true;
  }
  return false;
}

FreeResult try_free(const Segment& segment, BlockNumber block,
                    const SessionMemory& memory) noexcept {
  Atomic<std::uint64_t>& state = segment.record(block).word;
  const BlockWord word(state.load());
  if (!word.live()) return FreeResult::none;
  // Mostly another process holds the block, and tries again when it releases it. The search below
  // reads what a sender writes with each ticket, so it is the expensive part.
  if (has_holder(segment, block)) return FreeResult::none;
  if (in_flight(segment, block, word.generation(), memory)) return FreeResult::none;
  // A process may have claimed a ticket before the search above came to it. It had announced its
  // plane and set its bit before the claim, so this reads both the planes and the bits again.
  if (has_holder(segment, block)) return FreeResult::none;
  // Constant since the first ticket of the block, or changed by a holder only.
  const bool drains = TicketContents::must_drain(segment.record(block).contents.load());
  std::uint64_t expected = word.bits();
  const BlockWord next = drains ? word.draining() : word.freed();
  if (!state.compare_exchange_strong(expected, next.bits())) return FreeResult::none;
  return drains ? FreeResult::draining : FreeResult::freed;
}

}  // namespace shmtensor
