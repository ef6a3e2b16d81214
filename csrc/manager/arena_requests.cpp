#include "manager/arena_requests.hpp"

#include <string>
#include <utility>

#include "manager/messages.hpp"
#include "manager/session_statistics.hpp"
#include "os/fault_point.hpp"
#include "os/process.hpp"

namespace shmtensor {
namespace {

constexpr std::size_t kMaxArenasPerSlot = 4096;

}  // namespace

void ArenaRequests::statistics(const Client& client, Message message) {
  message.statistics.processes = session_.slots().taken();
  message.statistics.in_flight = count_in_flight(session_.memory());
  count(session_.arenas(), session_.memory(), message.statistics);
  reply(client.socket, message, MessageKind::done);
}

void ArenaRequests::collect(const Client& client, Message message) {
  message.number = session_.arenas().collect(session_.memory(), message.number);
  session_.arenas().reclaim_orphans();
  message.unfinished = session_.arenas().unfinished() ? 1 : 0;
  reply(client.socket, message, MessageKind::done);
}

void ArenaRequests::add(const Client& client, const Message& message, Fd fd) {
  if (session_.arenas().owned_by(client.slot) >= kMaxArenasPerSlot) {
    return refuse(client.socket, message,
                  "this process has " + std::to_string(kMaxArenasPerSlot) +
                      " arenas, which is the limit; release tensors, then call gc()");
  }
  if (session_.arenas().find(message.arena) == nullptr) {
    auto segment = fd ? Segment::open(session_.id(), message.arena, std::move(fd))
                      : Segment::open_named(session_.id(), message.arena);
    SHMTENSOR_FAULT_POINT("manager.register");
    session_.add_arena(std::move(segment));
  }
  reply(client.socket, message, MessageKind::done);
}

void ArenaRequests::find(const Client& client, const Message& message) {
  Message answer = message;
  const Segment* segment = session_.arenas().find(message.arena);
  if (segment == nullptr) {
    answer.unfinished = session_.knows_all_arenas() && session_.slots().all_registered() ? 0 : 1;
    return reply(client.socket, answer, MessageKind::unknown);
  }
  answer.strategy = static_cast<std::uint32_t>(segment->strategy());
  if (segment->strategy() == Strategy::file_system)
    return reply(client.socket, answer, MessageKind::done);
  const Segment::File file = segment->file();
  reply(client.socket, answer, MessageKind::done, &*file);
}

void ArenaRequests::describe_next(const Client& client, const Message& message) {
  const Segment* segment = session_.arenas().after(message.arena);
  if (segment == nullptr) return reply(client.socket, message, MessageKind::unknown);
  const ArenaHeader& header = segment->header();
  Message answer = message;
  answer.arena = segment->number();
  answer.strategy = static_cast<std::uint32_t>(segment->strategy());
  answer.slot = header.orphaned.load() != 0 ? kNoSlot : header.owner;
  answer.statistics = {};
  count(*segment, session_.memory(), answer.statistics);
  reply(client.socket, answer, MessageKind::done);
}

void ArenaRequests::keep_chunk(const Client& client, const Message& message, Fd fd) {
  if (!fd || message.chunk >= kMaxChunks ||
      !session_.arenas().keep_chunk(message.arena, message.chunk, std::move(fd))) {
    return refuse(client.socket, message, "no such arena or chunk");
  }
  reply(client.socket, message, MessageKind::done);
}

void ArenaRequests::find_chunk(const Client& client, const Message& message) {
  const Fd* descriptor = session_.arenas().find_chunk(message.arena, message.chunk);
  const Segment* segment = session_.arenas().find(message.arena);
  if (descriptor == nullptr && segment != nullptr && message.chunk < kMaxChunks &&
      segment->chunk(message.chunk).size.load() != 0) {
    const SlotTable::Occupant* const owner = session_.owner_of(*segment);
    if (owner != nullptr && owner->pidfd) {
      Fd taken = take_descriptor(owner->pidfd, segment->chunk(message.chunk).descriptor.load());
      if (taken) session_.arenas().keep_chunk(message.arena, message.chunk, std::move(taken));
      descriptor = session_.arenas().find_chunk(message.arena, message.chunk);
    }
  }
  if (descriptor == nullptr) return reply(client.socket, message, MessageKind::unknown);
  reply(client.socket, message, MessageKind::done, descriptor);
}

// Only the arena's owner knows that no process uses the chunk; a forked child of the owner does not
// know it.
void ArenaRequests::drop_chunk(const Client& client, const Message& message) {
  if (const Segment* segment = session_.arenas().find(message.arena)) {
    if (!owns(client, *segment)) {
      return refuse(client.socket, message, "only the owner of an arena may release its chunks");
    }
    session_.arenas().drop_chunk(message.arena, message.chunk);
  }
  reply(client.socket, message, MessageKind::done);
}

void ArenaRequests::retire(const Client& client, const Message& message) {
  if (const Segment* segment = session_.arenas().find(message.arena)) {
    if (!owns(client, *segment)) {
      return refuse(client.socket, message, "only the owner of an arena may retire it");
    }
    SHMTENSOR_FAULT_POINT("manager.retire");
    session_.arenas().retire(message.arena);
  }
  reply(client.socket, message, MessageKind::done);
}

void ArenaRequests::drain(const Client& client, const Message& message) {
  if (client.slot == kNoSlot) return;
  session_.arenas().drain(session_.memory(), message.arena,
                          static_cast<BlockNumber>(message.number));
}

bool ArenaRequests::owns(const Client& client, const Segment& segment) const {
  const ArenaHeader& header = segment.header();
  return static_cast<SlotNumber>(header.owner) == client.slot &&
         header.owner_incarnation == session_.slots()[client.slot].incarnation;
}

}  // namespace shmtensor
