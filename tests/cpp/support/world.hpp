// A session without a manager: its memory, and what some of its processes would have.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "arena/arena.hpp"
#include "arena/session_memory.hpp"
#include "support/names.hpp"

namespace shmtensor::testing {

inline constexpr Geometry kSmall{4096, 64 * kMiB};

/// What one process of a session has. Several may stand for several processes in one test process;
/// then each maps the arenas for itself.
class Peer {
 public:
  Peer(const SessionMemory& memory, SlotNumber slot) : memory_(memory), member_(memory, slot) {}

  /// An arena of its own.
  [[nodiscard]] std::unique_ptr<Arena> make_arena(Strategy strategy = Strategy::file_descriptor,
                                                  Geometry geometry = kSmall) {
    return std::make_unique<Arena>(Segment::create(memory_.id(), memory_.new_arena_number(),
                                                   member_.slot(), 1, strategy, geometry),
                                   member_, &budget_);
  }

  /// Somebody else's arena.
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

/// What a message says.
struct Sent {
  BlockNumber block = 0;
  Generation generation = 0;
  Ticket ticket;
};

inline Sent send(Arena& arena, BlockNumber block) {
  const Generation generation = arena.generation(block);
  return {block, generation, arena.send(block)};
}

/// Makes the arena's process a holder; false when the message is stale.
inline bool receive(Arena& arena, const Sent& sent) {
  bool held = false;
  {
    LocalTable::Lock lock(arena.local(), sent.block);
    held = arena.hold(lock, sent.block, sent.generation, sent.ticket,
                      arena.memory().transit(sent.ticket.sender));
  }
  if (!held) arena.abandon(sent.block);
  return held;
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

/// A fresh session for each test.
class WorldTest : public ::testing::Test {
 protected:
  const std::unique_ptr<SessionMemory> memory_ = SessionMemory::create(fresh_session());
};

}  // namespace shmtensor::testing
