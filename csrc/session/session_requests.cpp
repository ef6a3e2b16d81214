// A session's connection to its manager: requests, and reconnection after the manager was killed.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/report.hpp"
#include "manager/recovery.hpp"
#include "os/fault_point.hpp"
#include "os/limits.hpp"
#include "os/pipe_readers.hpp"
#include "os/unix_diag.hpp"
#include "session/session.hpp"

namespace shmtensor {
namespace {

constexpr int kAttempts = 5;

[[noreturn]] void throw_connection_closed(const SessionId& id) {
  throw SessionError(
      "cannot use session " + id.hex() +
      ": its manager closes every connection; it crashes on start, or its descriptors are used up, "
      "about three for each process: raise the hard limit (ulimit -Hn) where the first one starts");
}

}  // namespace

std::unique_ptr<Session> Session::connect(const SessionId& id, Start start,
                                          const Settings& settings, Budget& budget) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Connection connection =
        Connection::open(id, start == Start::always ? settings.program : std::string());
    // The number in a damaged or forged handle names no session, so it starts no manager.
    if (!connection && start == Start::if_it_lives && recover_session(id) != nullptr) {
      connection = Connection::open(id, settings.program);
    }
    if (!connection) return nullptr;
    Message hello = message_for(MessageKind::hello, id);
    hello.join = start == Start::always ? Join::create : Join::existing;
    hello.parent = settings.parent;
    std::optional<Reply> reply = connection.ask(hello);
    if (!reply) continue;  // the manager was exiting, or was killed
    if (reply->message.kind == MessageKind::unknown) return nullptr;
    auto memory = SessionMemory::open(id, std::move(reply->fd));
    memory->record_manager();
    // The manager was killed in this time. If no other process had the memory open, the next
    // manager did not find it and started a new session.
    if (!memory->has_manager()) continue;
    const auto slot = static_cast<SlotNumber>(reply->message.slot);
    if (!memory->enter(slot, SlotStatus::joining)) continue;
    return std::unique_ptr<Session>(new Session(std::move(memory), std::move(connection), slot,
                                                reply->message.incarnation, settings, budget));
  }
  throw_connection_closed(id);
}

Reply Session::ask(const Message& message, int descriptor) {
  member_.require_slot();
  const ConnectionGuard guard(*this);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (!connection_) reconnect();
    if (std::optional<Reply> reply = connection_.ask(message, descriptor)) return std::move(*reply);
  }
  throw_connection_closed(id());
}

// The manager was killed, or the program closed the connection. The present manager is sent all
// that this process has: the session's memory, and every arena of which this process has a
// descriptor.
void Session::reconnect() {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    connection_ = Connection::open(id(), settings_.program);
    Message hello = message_for(MessageKind::hello, id());
    hello.slot = member_.slot();
    hello.incarnation = incarnation_;
    SHMTENSOR_FAULT_POINT("session.reconnect");
    std::optional<Reply> reply = connection_.ask(hello, memory_->descriptor_or_none());
    if (!reply) continue;
    if (reply->message.kind != MessageKind::welcome) break;  // this process brought no memory
    if (memory_->manager_changed()) {
      report_event("the manager of session " + id().hex() + " has ended; another one took over");
    }
    memory_->record_manager();
    for (const PinnedArena& arena : pin_all()) {
      if (connection_) send_registration(*arena);
    }
    if (connection_ && connection_.tell(message_for(MessageKind::registered, id()))) return;
  }
  throw SessionError("cannot rejoin session " + id().hex() +
                     (memory_->descriptor_or_none() >= 0
                          ? ""
                          : ": its manager was killed, this program closed the descriptor of the "
                            "session, and no other process has it; do not close descriptors you "
                            "did not open"));
}

void Session::ensure_manager() noexcept {
  if (!member_.has_slot() || !memory_->manager_changed()) return;
  try {
    const ConnectionGuard guard(*this);
    if (!memory_->manager_changed()) return;  // another thread was faster
    connection_.shut_down();
    reconnect();
  } catch (const std::exception& error) {
    memory_->accept_manager();  // prevents another attempt at every send
    report("no manager is running; messages sent by this process will be lost if it exits: ",
           error.what());
  }
}

void Session::send_registration(const Arena& arena) {
  const Segment& segment = arena.segment();
  Message message = message_for(MessageKind::register_arena, id());
  message.arena = segment.number();
  message.strategy = static_cast<std::uint32_t>(segment.strategy());
  const bool named = segment.strategy() == Strategy::file_system;
  if (!named && !segment.keeps_descriptor()) return;  // the owner or /proc provides it
  // The manager may have closed the arena and removed its name when its last block was freed.
  if (named && segment.header().orphaned.load() != 0) return;
  try {
    const Segment::File file = segment.file();
    static_cast<void>(connection_.ask(message, named ? -1 : (*file).get()));
    message.kind = MessageKind::keep_chunk;
    // The analysis does not know that a lambda runs with the locks of its function.
    const auto tell = [&](std::uint32_t chunk, std::uint64_t size, int descriptor)
                          NO_THREAD_SAFETY_ANALYSIS {
                            message.chunk = chunk;
                            message.number = size;
                            if (connection_ && descriptor >= 0)
                              static_cast<void>(connection_.ask(message, descriptor));
                          };
    if (segment.strategy() == Strategy::device) {
      static_cast<const cuda::DeviceDataSegment&>(arena.data()).for_each_descriptor(tell);
    } else if (segment.strategy() == Strategy::external && arena.owned()) {
      for (std::uint32_t chunk = 0; chunk < kMaxChunks; ++chunk) {
        const ChunkRecord& record = segment.chunk(chunk);
        if (const std::uint64_t size = record.size.load(); size != 0) {
          tell(chunk, size, record.descriptor.load());
        }
      }
    }
  } catch (const OsError& error) {
    // A named arena whose owner is dead, and which was removed when nothing in it was in use.
    if (error.code() != ENOENT) throw;
  } catch (const Error& error) {
    report("cannot re-register an arena: ", error.what());
  }
}

Session::Watched Session::watch_pipe(int descriptor) noexcept {
  if (!member_.has_slot()) return {};
  ensure_manager();
  Message message = message_for(MessageKind::watch_pipe, id());
  message.pipe = pipe_number(descriptor);
  const Fd location = open_pipe_location(descriptor, message.pipe);
  const ConnectionGuard guard(*this);
  if (!connection_) return {message.pipe, false};
  if (message.pipe == 0) {
    // The socket at the other end, found before the message is written: later this end may be gone.
    // The manager searches in the network namespace of this connection.
    const auto reader = UnixDiag(connection_.socket()).peer_of(descriptor);
    if (!reader) return {0, true};
    message.pipe = reader->inode;
    message.number = reader->cookie;
  } else if (!location) {
    return {0, true};
  }
  return {message.pipe, connection_.tell(message, location.get())};
}

// A release may run with the GIL held and does not wait for the connection. If this process is
// killed before the notice is sent, or has no memory for it, the manager finds the block in its
// next sweep.
void Session::drain(ArenaNumber arena, BlockNumber block) noexcept {
  try {
    leave({.kind = MessageKind::drain, .block = {.arena = arena, .block = block}});
  } catch (const std::bad_alloc&) {
    static_cast<void>(memory_->postpone_free());
  }
}

ReadyPipe Session::watch_queue(const WatchedQueue& queue, const Fd& socket) {
  return ReadyPipe(ask(message_about(MessageKind::watch_queue, id(), queue), socket.get()).fd);
}

ReadyPipe Session::ready_pipe(const WatchedQueue& queue) {
  Reply reply = ask(message_about(MessageKind::find_ready_pipe, id(), queue));
  if (reply.message.kind == MessageKind::unknown) return {};
  return ReadyPipe(std::move(reply.fd));
}

void Session::wake_watchers(const WatchedQueue& queue) noexcept {
  try {
    static_cast<void>(leave({.kind = MessageKind::wake_watchers, .block = queue}));
  } catch (const std::bad_alloc&) {
    report("no memory is left to wake those that watch a queue");
  }
}

bool Session::leave(const Notice& notice) {
  {
    const LockGuard guard(notices_lock_);
    if (std::ranges::find(notices_, notice) == notices_.end()) notices_.push_back(notice);
  }
  return send_notices();
}

// The list is checked after the connection was unlocked: a thread that found it locked has left its
// notice in the list before.
//
// A notice that cannot be sent, because the manager is behind and the connection full, waits for
// the next one. Meanwhile the manager tries to free all blocks when it finds the mark, with its
// next request: if the connection is still full after that, it has one.
bool Session::send_notices() noexcept {
  while (has_notices() && connection_mutex_.try_lock()) {
    const LockGuard connection(connection_mutex_, std::adopt_lock);
    if (send_notices_locked()) continue;
    if (!memory_->postpone_free() || !send_notices_locked()) return false;
  }
  return true;
}

bool Session::has_notices() noexcept {
  const LockGuard guard(notices_lock_);
  return !notices_.empty();
}

bool Session::send_notices_locked() noexcept {
  const LockGuard guard(notices_lock_);
  for (; !notices_.empty(); notices_.pop_back()) {
    const Notice& notice = notices_.back();
    if (!connection_ || !connection_.tell(message_about(notice.kind, id(), notice.block))) {
      return false;
    }
  }
  return true;
}

Statistics Session::statistics() {
  return ask(message_for(MessageKind::statistics, id())).message.statistics;
}

std::uint64_t Session::cancel_tickets(std::uint64_t older_than_milliseconds) {
  Message message = message_for(MessageKind::collect, id());
  // The manager releases memory in steps. The later requests cancel no more tickets.
  std::uint64_t cancelled = 0;
  for (message.number = older_than_milliseconds;; message.number = kUnlimited) {
    const Message answer = ask(message).message;
    cancelled += answer.number;
    if (answer.unfinished == 0) return cancelled;
  }
}

void Session::keep(ArenaNumber arena, std::uint32_t chunk, std::uint64_t size,
                   const Fd& descriptor) {
  Message message = message_for(MessageKind::keep_chunk, id());
  message.arena = arena;
  message.chunk = chunk;
  message.number = size;
  static_cast<void>(ask(message, descriptor.get()));
}

// A request for an unknown chunk is repeated, see kSearches.
Fd Session::fetch(ArenaNumber arena, std::uint32_t chunk) {
  Message message = message_for(MessageKind::find_chunk, id());
  message.arena = arena;
  message.chunk = chunk;
  for (int search = 0; search < kSearches; ++search) {
    Reply reply = ask(message);
    if (reply.message.kind == MessageKind::done && reply.fd) return std::move(reply.fd);
    std::this_thread::sleep_for(kSearchPause);
  }
  throw SessionError("cannot reach device memory of arena " + std::to_string(arena) +
                     ": the session's manager was killed, and the process that allocated the "
                     "memory has not reconnected to the new manager; retry after it sends again");
}

void Session::drop(ArenaNumber arena, std::uint32_t chunk) {
  Message message = message_for(MessageKind::drop_chunk, id());
  message.arena = arena;
  message.chunk = chunk;
  static_cast<void>(ask(message));
}

}  // namespace shmtensor
