// A session with a queue and the manager's part in it, without processes, for tests that build the
// states in which a killed process leaves them.
#pragma once

#include <cstring>
#include <memory>
#include <optional>

#include "arena/reclaim.hpp"
#include "manager/arena_registry.hpp"
#include "queue/layout.hpp"
#include "support/world_fixture.hpp"

namespace shmtensor::testing {

/// Return the number of live tickets of these slots.
inline std::uint32_t live_tickets(const SessionMemory& memory, SlotNumber slots = 8) {
  std::uint32_t count = 0;
  for (SlotNumber slot = 0; slot < slots; ++slot) {
    memory.transit(slot).for_each_live([&](std::uint32_t, TicketGroup&, std::uint32_t live) {
      count += static_cast<std::uint32_t>(std::popcount(live));
    });
  }
  return count;
}

/// Slot 0 is the owner of the arena; the processes in other slots are killed by `sweep`.
class QueueWorld : public WorldTest {
 protected:
  static constexpr SlotNumber kDead = 1;

  QueueWorld() {
    add_to(registry_, *arena_);
    queue_ = make_queue(*arena_);
  }

  void add_to(ArenaRegistry& registry, const Arena& arena, const SlotSet& unused = {}) const {
    registry.add(copy_of(arena), true, *memory_, unused);
  }
  [[nodiscard]] std::unique_ptr<Segment> copy_of(const Arena& arena) const {
    const Segment& segment = arena.segment();
    return segment.strategy() == Strategy::file_system
               ? Segment::open_named(memory_->id(), segment.number())
               : Segment::open(memory_->id(), segment.number(), (*segment.file()).duplicate());
  }

  /// A block with an empty queue, held by its arena's owner.
  static BlockNumber make_queue(Arena& arena) {
    const BlockNumber block = *arena.allocate(sizeof(QueueHeader));
    QueueHeader& made = header_in(arena, block);
    std::memset(static_cast<void*>(&made), 0, sizeof made);
    made.magic.store(kQueueMagic);
    arena.set_contents(block, QueueHeader::contents());
    return block;
  }
  static QueueHeader& header_in(const Arena& arena, BlockNumber block) {
    return *reinterpret_cast<QueueHeader*>(arena.bytes(block, Access::read_write).data());
  }
  [[nodiscard]] QueueHeader& header() const { return header_in(*arena_, queue_); }

  /// A block that contains ticket records with cleared names, of a ring or a message.
  static BlockNumber make_container(Arena& arena, std::uint32_t records) {
    const BlockNumber block = *arena.allocate(std::uint64_t{records} * sizeof(MessageEntry));
    const std::span<std::byte> bytes = arena.bytes(block, Access::read_write);
    std::memset(bytes.data(), 0, bytes.size());
    arena.set_contents(block, ring_contents(records));
    return block;
  }
  static MessageEntry& entry_in(const Arena& arena, BlockNumber block, std::uint32_t index) {
    return reinterpret_cast<MessageEntry*>(arena.bytes(block, Access::read_write).data())[index];
  }

  /// Makes the arena's process a holder by the ticket of an entry, as a consumer does.
  static bool take(Arena& arena, const NamedTicket& named) {
    bool taken = false;
    {
      LocalTable::Lock lock(arena.local(), named.block);
      taken = arena.take(lock, named, arena.memory().transit(named.ticket.sender));
    }
    if (!taken) arena.unpin_and_try_free(named.block);
    return taken;
  }
  /// Makes another process of the session a holder of the block.
  void share(Arena& theirs, BlockNumber block) const {
    ASSERT_TRUE(receive(theirs, send(*arena_, block)));
  }

  void sweep(SlotNumber dead) { registry_.sweep(*memory_, SlotSet(dead)); }
  [[nodiscard]] bool is_free(BlockNumber block) const { return word_of(*arena_, block).is_free(); }
  [[nodiscard]] bool is_live(BlockNumber block) const { return word_of(*arena_, block).live(); }

  ArenaRegistry registry_;
  Peer owner_{*memory_, 0};
  const std::unique_ptr<Arena> arena_ = owner_.make_arena();
  BlockNumber queue_ = 0;
};

}  // namespace shmtensor::testing
