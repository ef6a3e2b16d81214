// A session without a manager, and what a process of it has. Several members in one program stand
// for several processes: each maps the arenas for itself, as processes do.
#pragma once

#include <memory>
#include <utility>

#include "arena/arena.hpp"
#include "arena/session_memory.hpp"
#include "os/random.hpp"

namespace shmtensor::bench {

inline SessionId fresh_session() { return {random_word(), random_word()}; }

class Process {
 public:
  Process(const SessionMemory& memory, SlotNumber slot) : memory_(memory), member_(memory, slot) {}

  [[nodiscard]] std::unique_ptr<Arena> make_arena(Strategy strategy = Strategy::file_descriptor) {
    auto segment = Segment::create(memory_.id(), memory_.new_arena_number(), member_.slot(), 1,
                                   strategy, Geometry{1u << 20, 8 * kGiB});
    segment->ensure_plane(member_.slot());
    return std::make_unique<Arena>(std::move(segment), member_, &budget_);
  }

  [[nodiscard]] std::unique_ptr<Arena> open_arena(const Segment& other) const {
    auto segment = Segment::open(memory_.id(), other.number(), (*other.file()).duplicate());
    segment->ensure_plane(member_.slot());
    return std::make_unique<Arena>(std::move(segment), member_, nullptr);
  }

 private:
  const SessionMemory& memory_;
  Member member_;
  Budget budget_;
};

/// A session with an owner and its arena.
struct World {
  std::unique_ptr<SessionMemory> memory = SessionMemory::create(fresh_session());
  Process owner{*memory, 0};
  std::unique_ptr<Arena> arena = owner.make_arena();
};

struct Sent {
  BlockNumber block = 0;
  Generation generation = 0;
  Ticket ticket;
};

inline Sent send(Arena& arena, BlockNumber block) {
  const Generation generation = arena.generation(block);
  return {block, generation, arena.send(block)};
}

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

}  // namespace shmtensor::bench
