// A session without a manager, and the objects of its processes, for C++ tests and benchmarks.
#pragma once

#include <cstdint>
#include <memory>

#include "arena/arena.hpp"
#include "arena/session_memory.hpp"
#include "support/names.hpp"

namespace shmtensor::testing {

inline constexpr SegmentLayout kSmall{4096, 64 * kMiB};

/// The objects of one process of a session. Several peers in one program stand for several
/// processes: each maps the arenas separately.
class Peer {
 public:
  Peer(const SessionMemory& memory, SlotNumber slot, DrainRequests* drains = nullptr)
      : memory_(memory), member_(memory, slot, drains) {}

  /// Create an arena that this peer owns.
  [[nodiscard]] std::unique_ptr<Arena> make_arena(Strategy strategy = Strategy::file_descriptor,
                                                  SegmentLayout layout = kSmall) {
    return std::make_unique<Arena>(Segment::create(memory_.id(), memory_.new_arena_number(),
                                                   member_.slot(), 1, strategy, layout),
                                   member_, &budget_);
  }

  /// Open an arena that another peer owns.
  [[nodiscard]] std::unique_ptr<Arena> open_arena(const Segment& other) const {
    auto segment = Segment::open(memory_.id(), other.number(), (*other.file()).duplicate());
    segment->ensure_plane(member_.slot());
    return std::make_unique<Arena>(std::move(segment), member_, nullptr);
  }

  [[nodiscard]] Member& member() noexcept { return member_; }
  [[nodiscard]] Budget& budget() noexcept { return budget_; }

 private:
  const SessionMemory& memory_;
  Member member_;
  Budget budget_;
};

/// A session with an owner and its arena, which is large enough for benchmarks.
struct World {
  const std::unique_ptr<SessionMemory> memory = SessionMemory::create(fresh_session());
  Peer owner{*memory, 0};
  const std::unique_ptr<Arena> arena =
      owner.make_arena(Strategy::file_descriptor, SegmentLayout{1u << 20, 8 * kGiB});
};

/// The content of a message.
struct Sent {
  BlockNumber block = 0;
  Generation generation = 0;
  Ticket ticket;
};

inline Sent send(Arena& arena, BlockNumber block) {
  const Generation generation = arena.generation(block);
  return {block, generation, arena.send(block)};
}

/// Make the arena's process a holder of the block. Return false if the message is stale.
inline bool receive(Arena& arena, const Sent& sent) {
  bool held = false;
  {
    LocalTable::Lock lock(arena.local(), sent.block);
    held = arena.hold(lock, {arena.segment().number(), sent.block, sent.generation, sent.ticket},
                      &arena.memory().transit(sent.ticket.sender));
  }
  if (!held) arena.unpin_and_try_free(sent.block);
  return held;
}

/// As the layer above does when it makes or destroys an object over a block.
inline void set_object(const Arena& arena, BlockNumber block, void* object,
                       Access access = Access::read_write) {
  const LocalTable::Lock lock(arena.local(), block);
  arena.local().set_object(lock, access, object);
}

inline BlockWord word_of(const Arena& arena, BlockNumber block) {
  return BlockWord(arena.segment().record(block).word.load());
}

inline std::uint32_t live_blocks(const Segment& segment) {
  std::uint32_t count = 0;
  for (BlockNumber block = 0; block < segment.capacity(); ++block) {
    count += BlockWord(segment.record(block).word.load()).live() ? 1u : 0u;
  }
  return count;
}

/// Return the number of blocks that are live or draining.
inline std::uint32_t used_blocks(const Segment& segment) {
  std::uint32_t count = 0;
  for (BlockNumber block = 0; block < segment.capacity(); ++block) {
    count += BlockWord(segment.record(block).word.load()).is_free() ? 0u : 1u;
  }
  return count;
}

}  // namespace shmtensor::testing
