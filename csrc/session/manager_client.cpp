// The connection to the manager: requests, notices, and reconnection after the manager was killed.
#include "session/manager_client.hpp"

#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/report.hpp"
#include "os/fault_point.hpp"

namespace shmtensor {
namespace {

Message registration_of(const Segment& segment, const SessionId& session) {
  Message message = message_for(MessageKind::register_arena, session);
  message.arena = segment.number();
  message.strategy = static_cast<std::uint32_t>(segment.strategy());
  return message;
}

}  // namespace

ManagerClient::ManagerClient(Connection connection, const SessionMemory& memory,
                             const Member& member, std::uint32_t incarnation, MappedArenas& arenas,
                             std::string program)
    : connection_(std::move(connection)),
      memory_(memory),
      member_(member),
      incarnation_(incarnation),
      arenas_(arenas),
      program_(std::move(program)) {
  notices_.reserve(kMostNotices);
}

void ManagerClient::throw_connection_closed(const SessionId& id) {
  throw SessionError(
      "cannot use session " + id.hex() +
      ": its manager closes every connection; it crashes on start, or its descriptors are used up, "
      "about three for each process: raise the hard limit (ulimit -Hn) where the first one starts");
}

Reply ManagerClient::ask(const Message& message, int descriptor) {
  member_.require_slot();
  const Guard guard(*this);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (!connection_) reconnect();
    if (std::optional<Reply> reply = connection_.ask(message, descriptor)) return std::move(*reply);
  }
  throw_connection_closed(id());
}

// The manager was killed, or the program closed the connection. The present manager is sent all
// that this process has: the session's memory, and every arena of which this process has a
// descriptor.
void ManagerClient::reconnect() {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    connection_ = Connection::open(id(), program_);
    Message hello = message_for(MessageKind::hello, id());
    hello.slot = member_.slot();
    hello.incarnation = incarnation_;
    SHMTENSOR_FAULT_POINT("session.reconnect");
    std::optional<Reply> reply = connection_.ask(hello, memory_.descriptor_or_none());
    if (!reply) continue;
    if (reply->message.kind != MessageKind::welcome) break;  // this process brought no memory
    if (memory_.manager_changed()) {
      report_event("the manager of session " + id().hex() + " has ended; another one took over");
    }
    memory_.record_manager();
    for (const PinnedArena& arena : arenas_.all()) {
      if (connection_) register_again(*arena);
    }
    if (connection_ && connection_.notify(message_for(MessageKind::registered, id()))) return;
  }
  throw SessionError("cannot rejoin session " + id().hex() +
                     (memory_.descriptor_or_none() >= 0
                          ? ""
                          : ": its manager was killed, this program closed the descriptor of the "
                            "session, and no other process has it; do not close descriptors you "
                            "did not open"));
}

void ManagerClient::ensure() noexcept {
  if (!member_.has_slot() || !memory_.manager_changed()) return;
  try {
    const Guard guard(*this);
    if (!memory_.manager_changed()) return;  // another thread was faster
    connection_.shut_down();
    reconnect();
  } catch (const std::exception& error) {
    memory_.accept_manager();  // prevents another attempt at every send
    report("no manager is running; messages sent by this process will be lost if it exits: ",
           error.what());
  }
}

void ManagerClient::register_arena(const Segment& segment) {
  const Segment::File file = segment.file();
  const bool named = segment.strategy() == Strategy::file_system;
  ask(registration_of(segment, id()), named ? -1 : (*file).get());
}

void ManagerClient::register_again(const Arena& arena) {
  const Segment& segment = arena.segment();
  Message message = registration_of(segment, id());
  const bool named = segment.strategy() == Strategy::file_system;
  if (!named && !segment.keeps_descriptor()) return;  // the owner or /proc provides it
  // The manager may have closed the arena and removed its name when its last block was freed.
  if (named && segment.header().orphaned.load() != 0) return;
  try {
    const Segment::File file = segment.file();
    static_cast<void>(connection_.ask(message, named ? -1 : (*file).get()));
    message.kind = MessageKind::keep_chunk;
    // The analysis does not know that a lambda runs with the locks of its function.
    const auto announce = [&](std::uint32_t chunk, std::uint64_t size, int descriptor)
                              NO_THREAD_SAFETY_ANALYSIS {
                                message.chunk = chunk;
                                message.number = size;
                                if (connection_ && descriptor >= 0)
                                  static_cast<void>(connection_.ask(message, descriptor));
                              };
    if (segment.strategy() == Strategy::device) {
      static_cast<const cuda::DeviceDataSegment&>(arena.data()).for_each_descriptor(announce);
    } else if (segment.strategy() == Strategy::external && arena.owned()) {
      for (std::uint32_t chunk = 0; chunk < kMaxChunks; ++chunk) {
        const ChunkRecord& record = segment.chunk(chunk);
        if (const std::uint64_t size = record.size.load(); size != 0) {
          announce(chunk, size, record.descriptor.load());
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

void ManagerClient::leave(const Notice& notice) noexcept {
  {
    const LockGuard guard(notices_lock_);
    if (notices_.size() == kMostNotices) {
      static_cast<void>(memory_.postpone_free());  // the others are sent after this mark
    } else if (notices_.empty() || notices_.back() != notice) {  // of a queue there may be many
      notices_.push_back(notice);
    }
  }
  send_notices();
}

// The list is checked after the connection was unlocked: a thread that found it locked has left its
// notice in the list before.
void ManagerClient::send_notices() noexcept {
  while (has_notices() && mutex_.try_lock()) {
    const LockGuard connection(mutex_, std::adopt_lock);
    send_notices_locked();
  }
}

bool ManagerClient::has_notices() noexcept {
  const LockGuard guard(notices_lock_);
  return !notices_.empty();
}

// If the manager is behind and the connection full, a mark replaces the notices: with its next
// request the manager tries to free all blocks, and wakes all that watch. If the connection is
// still full after the mark, it has a request.
void ManagerClient::send_notices_locked() noexcept {
  const LockGuard guard(notices_lock_);
  const auto send = [this](const Notice& notice) NO_THREAD_SAFETY_ANALYSIS {
    return connection_ && connection_.notify(message_about(notice.kind, id(), notice.block));
  };
  for (; !notices_.empty(); notices_.pop_back()) {
    if (send(notices_.back())) continue;
    static_cast<void>(memory_.postpone_free());
    if (!send(notices_.back())) return notices_.clear();
  }
}

void ManagerClient::unlock_in_parent() noexcept {
  notices_lock_.unlock();
  mutex_.unlock();
  send_notices();
}

void ManagerClient::unlock_in_child(Fd socket, std::uint32_t incarnation) noexcept {
  connection_.close();
  if (socket) {
    connection_ = Connection(std::move(socket));
    connection_.notify(message_for(MessageKind::child, id()));
    incarnation_ = incarnation;
  }
  notices_.clear();  // the parent sends these
  notices_lock_.unlock();
  // A recursive mutex stores the thread id of its owner, which is different in the child.
  std::construct_at(&mutex_);
}

}  // namespace shmtensor
