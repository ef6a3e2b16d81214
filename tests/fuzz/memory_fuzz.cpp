// A member of the session writes anything into an arena, a queue and a broadcast in it, and the
// session's memory, before or after the manager opens them. The manager processes all as after a
// death, and neither crashes nor runs indefinitely.
#include <array>
#include <cstddef>
#include <cstring>

#include "arena/arena.hpp"
#include "arena/session_memory.hpp"
#include "base/error.hpp"
#include "input.hpp"
#include "manager/arena_registry.hpp"
#include "manager/session_statistics.hpp"
#include "manager/slot_table.hpp"
#include "os/random.hpp"
#include "patch.hpp"
#include "queue/broadcast_layout.hpp"
#include "queue/layout.hpp"

using namespace shmtensor;

namespace {

constexpr SegmentLayout kSmall{4096, 64 << 20};
constexpr std::uint64_t kMessages = 4;  // that fit into the broadcast

// Return the bytes of a new block, which are zero.
std::span<std::byte> clear(Arena& arena, BlockNumber block) {
  const std::span<std::byte> bytes = arena.bytes(block, Access::read_write);
  std::memset(bytes.data(), 0, bytes.size());
  return bytes;
}

// A queue that the dead member has locked, with a message in a ring of its own.
BlockNumber make_queue(Arena& arena) {
  const BlockNumber block = *arena.allocate(sizeof(QueueHeader));
  auto& queue = *reinterpret_cast<QueueHeader*>(clear(arena, block).data());
  queue.magic.store(kQueueMagic);
  arena.set_contents(block, QueueHeader::contents());
  const BlockNumber ring = *arena.allocate(4 * sizeof(MessageEntry));
  const std::span<std::byte> entries = clear(arena, ring);
  arena.set_contents(ring, ring_contents(4));
  queue.ring(1).strategy.store(Strategy::file_descriptor);
  arena.send(ring, queue.ring(1).ticket);
  arena.release(ring);
  const BlockNumber message = *arena.allocate(64);
  arena.send(message, reinterpret_cast<MessageEntry*>(entries.data())[0].ticket);
  arena.release(message);
  queue.tail.ring.store(1);
  queue.tail.count.store(1);
  queue.tail.lock.store(2);
  queue.head.lock.store(2);
  return block;
}

// A broadcast that the dead member has locked, with a message that it has not read as a reader.
BlockNumber make_broadcast(Arena& arena) {
  const BlockNumber block = *arena.allocate(BroadcastHeader::bytes(kMessages));
  const std::span<std::byte> bytes = clear(arena, block);
  auto& broadcast = *reinterpret_cast<BroadcastHeader*>(bytes.data());
  broadcast.magic.store(kBroadcastMagic);
  broadcast.limit.store(kMessages);
  arena.set_contents(block, BroadcastHeader::contents(kMessages));
  const BlockNumber message = *arena.allocate(64);
  auto* const entries = reinterpret_cast<MessageEntry*>(bytes.data() + sizeof(BroadcastHeader));
  arena.send(message, entries[0].ticket);
  arena.release(message);
  broadcast.readers[0].owner.store(ReaderRecord::kReads | ReaderRecord::owned_by(1));
  broadcast.used.store(1);
  broadcast.tail.count.store(1);
  broadcast.tail.lock.store(2);
  return block;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const SessionId id{random_word(), random_word()};
  const auto memory = SessionMemory::create(id);
  Member member(*memory, 1);
  Budget budget;
  memory->slot(1).incarnation.store(1);
  memory->slot(1).status.store(SlotStatus::active);
  auto created = Segment::create(id, 1, 1, 1, Strategy::file_descriptor, kSmall);
  const Fd arena_file = (*created->file()).duplicate();
  Arena arena(std::move(created), member, &budget);
  const BlockNumber block = *arena.allocate(64);
  static_cast<void>(arena.send(block));
  const BlockNumber queue = make_queue(arena);
  const BlockNumber broadcast = make_broadcast(arena);

  const SegmentLayout& layout = arena.segment().layout();
  const std::array<fuzz::Target, 9> targets{{
      {arena_file, 0, sizeof(ArenaHeader)},
      {arena_file, layout.records(), 8 * sizeof(BlockRecord)},
      {arena_file, layout.holders(0), 64},
      {arena_file, layout.senders(0), 64},
      {arena_file, layout.freed(), 256},
      {memory->file(), 0, offsetof(SessionHeader, slots) + 4 * sizeof(SlotRecord)},
      {memory->file(), SessionMemory::transit_offset(1), 4096},
      {arena_file, layout.data() + arena.segment().record(queue).offset.load(),
       sizeof(QueueHeader) + 4 * sizeof(MessageEntry)},
      {arena_file, layout.data() + arena.segment().record(broadcast).offset.load(),
       BroadcastHeader::bytes(kMessages)},
  }};
  const auto patch_some = [&](int most) {
    for (int i = 0; i < most && !input.empty(); ++i) {
      fuzz::patch(targets[input.take<std::uint8_t>() % targets.size()], input);
    }
  };
  patch_some(input.take<std::uint8_t>() % 4);
  try {
    const auto opened = SessionMemory::open(id, memory->file().duplicate());
    SlotTable slots(*opened);
    slots.take_over();
    ArenaRegistry directory;
    directory.add(Segment::open(id, 1, arena_file.duplicate()), true, *opened, slots.unused());
    patch_some(64);
    Statistics statistics;
    count(directory, *opened, statistics);
    static_cast<void>(next_queue(directory, *opened, 1, 0));
    static_cast<void>(count_in_flight(*opened));
    static_cast<void>(directory.owned_by(1));
    directory.sweep(*opened, 1);
    directory.drain(*opened, 1, queue);
    directory.drain(*opened, 1, broadcast);
    static_cast<void>(directory.collect(*opened, 0));
    directory.reclaim_orphans();
    directory.notify_owners();
  } catch (const Error&) {
    // refused
  }
  return 0;
}
