// Receives the requests of members and answers them.
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "manager/server.hpp"
#include "os/fault_point.hpp"
#include "os/process.hpp"
#include "os/unix_socket.hpp"

namespace shmtensor {
namespace {

bool is_socket(const Fd& fd) {
  struct stat info{};
  return ::fstat(fd.get(), &info) == 0 && S_ISSOCK(info.st_mode);
}

// The requests that only a member may make; an observer has no slot.
constexpr std::array kMemberRequests{Kind::register_arena, Kind::find_arena, Kind::keep_chunk,
                                     Kind::find_chunk,     Kind::drop_chunk, Kind::fork};

bool needs_slot(Kind request) noexcept {
  return std::ranges::find(kMemberRequests, request) != kMemberRequests.end();
}

}  // namespace

void Server::reply(const Fd& socket, Message message, Kind kind, const Fd* fd) {
  message.kind = kind;
  const int number = fd != nullptr ? fd->get() : -1;
  send_message(socket, std::as_bytes(std::span(&message, 1)),
               fd != nullptr ? std::span(&number, 1) : std::span<const int>(), Wait::never);
}

void Server::refuse(const Fd& socket, Message message, const std::string& why) {
  message.set_text(why);
  reply(socket, message, Kind::refused);
}

void Server::serve(int descriptor) {
  const auto at = lines_.find(descriptor);
  if (at == lines_.end()) return;
  Message message;
  try {
    std::optional<Received> received = receive_message(
        at->second.socket, std::as_writable_bytes(std::span(&message, 1)), Wait::never);
    if (!received) return;
    if (received->size == 0) {
      drop_line(descriptor);
      return;
    }
    if (received->size != sizeof message || message.magic != kProtocolMagic ||
        message.version != kProtocolVersion || message.session != session_) {
      refuse(at->second.socket, {}, "malformed request");
      drop_line(descriptor);
      return;
    }
    Fd fd;
    if (!received->fds.empty()) fd = std::move(received->fds.front());
    answer(at->second, message, std::move(fd), received->sender);
  } catch (const Error& error) {
    try {
      refuse(at->second.socket, message, error.what());
    } catch (const Error&) {
      drop_line(descriptor);  // the client does not read
    }
  }
}

void Server::answer(Line& line, Message& message, Fd fd, pid_t sender) {
  if (message.kind == Kind::hello) return hello(line, message, std::move(fd));
  if (message.kind == Kind::child) return settle_child(line, sender);
  if (!memory_ || (needs_slot(message.kind) && line.slot == kNoSlot)) {
    return refuse(line.socket, message, "no session joined on this connection");
  }
  switch (message.kind) {
    case Kind::statistics:
      message.statistics.processes = seats_->taken();
      message.statistics.in_flight = count_in_flight(*memory_);
      directory_.count(message.statistics);
      return reply(line.socket, message, Kind::done);
    case Kind::collect:
      message.number = directory_.collect(*memory_, message.number);
      directory_.tend_orphans();
      message.unfinished = directory_.unfinished() ? 1 : 0;
      return reply(line.socket, message, Kind::done);
    case Kind::register_arena:
      return register_arena(line, message, std::move(fd));
    case Kind::find_arena:
      return find_arena(line, message);
    case Kind::next_arena:
      return next_arena(line, message);
    case Kind::keep_chunk:
      return keep_chunk(line, message, std::move(fd));
    case Kind::find_chunk:
      return find_chunk(line, message);
    case Kind::drop_chunk:
      return drop_chunk(line, message);
    case Kind::fork:
      return prepare_fork(line, std::move(fd));
    default:
      return refuse(line.socket, message, "unknown request type");
  }
}

void Server::hello(Line& line, const Message& message, Fd fd) {
  if (line.slot != kNoSlot)
    return refuse(line.socket, message, "this connection already has a slot");
  const FileIdentity brought = fd ? fd.identity() : FileIdentity{};
  if (!memory_) find_or_start(message, std::move(fd));
  if (!memory_) return reply(line.socket, message, Kind::unknown);

  Message answer = message;
  if (message.join != Join::observe) {
    const pid_t pid = peer_credentials(line.socket).pid;
    const ProcessIdentity process{pid, start_time_of(pid)};
    Fd pidfd = peer_pidfd(line.socket);
    if (!pidfd && pid > 0) pidfd = open_pidfd(process);
    if (message.slot < kMaxSlots) {
      // A member that lost its connection, or whose manager was killed.
      const auto slot = static_cast<SlotNumber>(message.slot);
      Seats::Seat& old = (*seats_)[slot];
      const bool same = seats_->is_unknown(slot) ? brought == memory_->file().identity()
                                                 : old.process.pid == 0 || old.process.pid == pid;
      if (!old.taken || old.life != message.life || !same || old.line >= 0) {
        return refuse(line.socket, message,
                      "the slot was reclaimed: the manager considered this process dead");
      }
      line.slot = slot;
      old.line = line.socket.get();
      if (!old.pidfd) {
        seats_->settle(slot, process, std::move(pidfd));
        watch(slot);
      }
    } else {
      // A slot that an earlier manager reserved for this process, which did not enter it. Processes
      // of another PID namespace cannot be distinguished.
      seats_->for_each_taken([&](SlotNumber given) {
        const Seats::Seat& seat = (*seats_)[given];
        if (pid > 0 && seat.process == process && seat.line < 0 && seats_->is_awaited(given)) {
          vacate(given);
        }
      });
      const auto slot = seats_->take(process, message.parent, std::move(pidfd), line.socket.get());
      if (!slot) return refuse(line.socket, message, "all 1024 slots of the session are taken");
      line.slot = *slot;
      watch(*slot);
    }
    answer.slot = line.slot;
    answer.life = (*seats_)[line.slot].life;
  }
  SHMTENSOR_FAULT_POINT("manager.before_welcome");
  reply(line.socket, answer, Kind::welcome, &memory_->file());
}

void Server::prepare_fork(const Line& line, Fd fd) {
  Message message;
  message.session = session_;
  if (!is_socket(fd)) return refuse(line.socket, message, "a fork request needs a socket");
  ask_for_sender(fd);
  if (lines_.size() >= kMaxLines)
    return refuse(line.socket, message,
                  "the manager has too many connections (limit " + std::to_string(kMaxLines) + ")");
  // Before a slot is reserved for the child: a connection without a slot may stay, like that of a
  // process which has just connected.
  const int descriptor = add_line(std::move(fd));
  const auto slot = seats_->take_for_child((*seats_)[line.slot].process.pid, descriptor);
  if (!slot) return refuse(line.socket, message, "all 1024 slots of the session are taken");
  lines_[descriptor].slot = *slot;
  message.slot = *slot;
  message.life = (*seats_)[*slot].life;
  SHMTENSOR_FAULT_POINT("manager.before_fork_reply");
  reply(line.socket, message, Kind::done);
}

void Server::settle_child(const Line& line, pid_t sender) {
  if (line.slot == kNoSlot || !(*seats_)[line.slot].forking) return;
  const ProcessIdentity child{sender, start_time_of(sender)};
  seats_->settle(line.slot, child, open_pidfd(child));
  watch(line.slot);
}

}  // namespace shmtensor
