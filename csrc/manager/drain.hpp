// Cancels the tickets that blocks contain: those of a queue or a message that no process can reach.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "arena/reclaim.hpp"
#include "arena/segment.hpp"
#include "arena/session_memory.hpp"
#include "arena/ticket_record.hpp"
#include "queue/pipe_end.hpp"
#include "queue/repair.hpp"

namespace shmtensor {

class ArenaRegistry;

/// A block whose tickets are cancelled may contain tickets itself, so there is a list of blocks to
/// drain. A block stays in the draining state until it is free; so a new manager, which finds it in
/// its sweep, begins again.
/// Threads: one.
class Drain final : public TicketCanceller {
 public:
  Drain(ArenaRegistry& arenas, const SessionMemory& memory) : arenas_(arenas), memory_(memory) {}

  void add(ArenaNumber arena, BlockNumber block) { blocks_.emplace_back(arena, block); }
  /// Drains and frees the blocks that were added, and those that this frees.
  void run();

  void cancel(const NamedTicket& named) override;
  [[nodiscard]] bool is_live(const NamedTicket& named) override;
  [[nodiscard]] std::span<std::byte> map_ring(const NamedTicket& named, Strategy strategy) override;

 private:
  void empty(ArenaNumber arena, BlockNumber block);
  [[nodiscard]] QueueHeader* hung_up(const QueueName& name);
  [[nodiscard]] TransitTable* table_of(SlotNumber sender) const;

  ArenaRegistry& arenas_;
  const SessionMemory& memory_;
  std::vector<std::pair<ArenaNumber, BlockNumber>> blocks_;
};

/// The bytes of a block; empty if its record is damaged. Nothing if they cannot be mapped now:
/// descriptors or address space are short.
[[nodiscard]] std::optional<std::span<std::byte>> bytes_in(const Segment& segment,
                                                           BlockNumber block);

}  // namespace shmtensor
