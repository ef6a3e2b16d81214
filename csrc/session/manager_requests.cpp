// The requests to the manager, one after the other.
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "os/limits.hpp"
#include "session/manager_client.hpp"

namespace shmtensor {
namespace {

// A manager that took over learns what a process in another PID namespace has when that process
// next uses the session. A request for it is repeated so often.
constexpr int kSearches = 40;
constexpr std::chrono::milliseconds kSearchPause{50};

Message about_arena(MessageKind kind, const SessionId& session, ArenaNumber arena,
                    std::uint32_t chunk = 0) {
  Message message = message_for(kind, session);
  message.arena = arena;
  message.chunk = chunk;
  return message;
}

}  // namespace

void ManagerClient::retire_arena(ArenaNumber number) {
  ask(about_arena(MessageKind::retire_arena, id(), number));
}

Fd ManagerClient::find_arena(ArenaNumber number) {
  const Message message = about_arena(MessageKind::find_arena, id(), number);
  for (int search = 0; search < kSearches; ++search) {
    Reply reply = ask(message);
    if (reply.fd || reply.message.unfinished == 0) return std::move(reply.fd);
    std::this_thread::sleep_for(kSearchPause);
  }
  throw SessionError(
      "cannot reach arena " + std::to_string(number) + " of session " + id().hex() +
      ": the session's manager was killed, and a process in another PID namespace, "
      "which may have the arena, has not used the session since; retry after it has");
}

Incarnation ManagerClient::reserve_child_slot(const Fd& socket) {
  const Message answer = ask(message_for(MessageKind::fork, id()), socket.get()).message;
  return {static_cast<SlotNumber>(answer.slot), answer.incarnation};
}

Statistics ManagerClient::statistics() {
  return ask(message_for(MessageKind::statistics, id())).message.statistics;
}

std::uint64_t ManagerClient::cancel_tickets(std::uint64_t older_than_milliseconds) {
  Message message = message_for(MessageKind::collect, id());
  // The manager releases memory in steps. The later requests cancel no more tickets.
  std::uint64_t cancelled = 0;
  for (message.number = older_than_milliseconds;; message.number = kUnlimited) {
    const Message answer = ask(message).message;
    cancelled += answer.number;
    if (answer.unfinished == 0) return cancelled;
  }
}

ReadyPipe ManagerClient::watch_queue(const WatchedQueue& queue, const Fd& socket) {
  return ReadyPipe(ask(message_about(MessageKind::watch_queue, id(), queue), socket.get()).fd);
}

ReadyPipe ManagerClient::ready_pipe(const WatchedQueue& queue) {
  Reply reply = ask(message_about(MessageKind::find_ready_pipe, id(), queue));
  if (reply.message.kind == MessageKind::unknown) return {};
  return ReadyPipe(std::move(reply.fd));
}

void ManagerClient::wake_watchers(const WatchedQueue& queue) noexcept {
  leave({.kind = MessageKind::wake_watchers, .block = queue});
}

// A release may run with the GIL held and does not wait for the connection. If this process is
// killed before the notice is sent, the manager finds the block in its next sweep.
void ManagerClient::drain(ArenaNumber arena, BlockNumber block) noexcept {
  leave({.kind = MessageKind::drain, .block = {.arena = arena, .block = block}});
}

void ManagerClient::keep(ArenaNumber arena, std::uint32_t chunk, std::uint64_t size,
                         const Fd& descriptor) {
  Message message = about_arena(MessageKind::keep_chunk, id(), arena, chunk);
  message.number = size;
  ask(message, descriptor.get());
}

Fd ManagerClient::fetch(ArenaNumber arena, std::uint32_t chunk) {
  const Message message = about_arena(MessageKind::find_chunk, id(), arena, chunk);
  for (int search = 0; search < kSearches; ++search) {
    Reply reply = ask(message);
    if (reply.message.kind == MessageKind::done && reply.fd) return std::move(reply.fd);
    std::this_thread::sleep_for(kSearchPause);
  }
  throw SessionError("cannot reach device memory of arena " + std::to_string(arena) +
                     ": the session's manager was killed, and the process that allocated the "
                     "memory has not reconnected to the new manager; retry after it sends again");
}

void ManagerClient::drop(ArenaNumber arena, std::uint32_t chunk) {
  ask(about_arena(MessageKind::drop_chunk, id(), arena, chunk));
}

}  // namespace shmtensor
