// Receives the requests of members and answers them.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "manager/messages.hpp"
#include "manager/server.hpp"
#include "os/fault_point.hpp"
#include "os/process.hpp"
#include "os/unix_socket.hpp"

namespace shmtensor {
namespace {

// The requests that only a member may make; an observer has no slot.
constexpr std::array kMemberRequests{
    MessageKind::register_arena, MessageKind::find_arena,      MessageKind::keep_chunk,
    MessageKind::find_chunk,     MessageKind::drop_chunk,      MessageKind::retire_arena,
    MessageKind::watch_queue,    MessageKind::find_ready_pipe, MessageKind::fork};

bool is_notice(MessageKind kind) noexcept {
  return kind == MessageKind::watch_pipe || kind == MessageKind::drain ||
         kind == MessageKind::wake_watchers || kind == MessageKind::registered;
}

std::string all_slots_taken() {
  return "all " + std::to_string(kMaxSlots) +
         " slots of the session are taken, one by each process that uses it; end some, or let "
         "others use another session (SHMTENSOR_SESSION)";
}

bool needs_slot(MessageKind request) noexcept {
  return std::ranges::find(kMemberRequests, request) != kMemberRequests.end();
}

}  // namespace

bool Server::serve(int descriptor) {
  Client* const client = clients_.find(descriptor);
  if (client == nullptr) return false;
  Message message;
  try {
    std::optional<Received> received = receive_message(
        client->socket, std::as_writable_bytes(std::span(&message, 1)), Wait::never);
    if (!received) return false;
    if (received->size == 0) {
      deaths_.remove_client(*client);
      return false;
    }
    if (!is_request(*received, message, session_.id())) {
      refuse(client->socket, {}, "malformed request");
      deaths_.remove_client(*client);
      return false;
    }
    Fd fd;
    if (!received->fds.empty()) fd = std::move(received->fds.front());
    answer(*client, message, std::move(fd), received->sender);
  } catch (const Error& error) {
    if (is_notice(message.kind)) return true;  // the client waits for no answer
    try {
      refuse(client->socket, message, error.what());
    } catch (const Error&) {
      pipes_.watch_last(*client);
      deaths_.remove_client(*client);  // the client does not read, or has ended with replies unread
    }
  }
  return true;
}

void Server::answer(Client& client, Message& message, Fd fd, pid_t sender) {
  deaths_.sweep();
  session_.try_postponed_frees();
  if (message.kind == MessageKind::hello) return hello(client, message, std::move(fd));
  if (message.kind == MessageKind::child) return identify_child(client, sender);
  if (message.kind == MessageKind::watch_pipe) return pipes_.watch(client, message, std::move(fd));
  if (message.kind == MessageKind::drain) return arenas_.drain(client, message);
  if (message.kind == MessageKind::wake_watchers) return queues_.wake_watchers(client, message);
  if (message.kind == MessageKind::registered) return note_registered(client);
  if (!session_.exists() || (needs_slot(message.kind) && client.slot == kNoSlot)) {
    return refuse(client.socket, message, "no session joined on this connection");
  }
  switch (message.kind) {
    case MessageKind::statistics:
      return arenas_.statistics(client, message);
    case MessageKind::collect:
      return arenas_.collect(client, message);
    case MessageKind::register_arena:
      return arenas_.add(client, message, std::move(fd));
    case MessageKind::find_arena:
      return arenas_.find(client, message);
    case MessageKind::next_arena:
      return arenas_.describe_next(client, message);
    case MessageKind::next_queue:
      return queues_.describe_next(client, message);
    case MessageKind::keep_chunk:
      return arenas_.keep_chunk(client, message, std::move(fd));
    case MessageKind::find_chunk:
      return arenas_.find_chunk(client, message);
    case MessageKind::drop_chunk:
      return arenas_.drop_chunk(client, message);
    case MessageKind::retire_arena:
      return arenas_.retire(client, message);
    case MessageKind::watch_queue:
      return queues_.watch(client, message, std::move(fd));
    case MessageKind::find_ready_pipe:
      return queues_.find_ready_pipe(client, message);
    case MessageKind::fork:
      return prepare_fork(client, std::move(fd));
    default:
      return refuse(client.socket, message, "unknown request type");
  }
}

void Server::hello(Client& client, const Message& message, Fd fd) {
  if (client.slot != kNoSlot)
    return refuse(client.socket, message, "this connection already has a slot");
  const FileIdentity brought = fd ? fd.identity() : FileIdentity{};
  if (!session_.exists()) {
    session_.find_or_start(message.join, std::move(fd));
    if (!session_.exists()) return reply(client.socket, message, MessageKind::unknown);
    deaths_.watch_all();
  }

  Message answer = message;
  if (message.join != Join::observe) {
    const pid_t pid = peer_credentials(client.socket).pid;
    const ProcessIdentity process{pid, start_time_of(pid)};
    Fd pidfd = peer_pidfd(client.socket);
    if (!pidfd && pid > 0) pidfd = open_pidfd(process);
    if (message.slot < kMaxSlots) {
      // A member that lost its connection, or whose manager was killed.
      const auto slot = static_cast<SlotNumber>(message.slot);
      SlotTable::Occupant& old = session_.slots()[slot];
      const bool same = session_.slots().is_unknown(slot)
                            ? brought == session_.memory().file().identity()
                            : old.process.pid == 0 || old.process.pid == pid;
      const auto is_known = [&] { return old.taken && old.incarnation == message.incarnation; };
      if (is_known() && same && old.connection >= 0) end_connection(old.connection);
      if (!is_known() || !same || old.connection >= 0) {
        return refuse(client.socket, message,
                      "the slot was reclaimed: the manager considered this process dead");
      }
      client.slot = slot;
      old.connection = client.socket.get();
      if (!old.pidfd) {
        session_.slots().identify(slot, process, std::move(pidfd));
        deaths_.watch(slot);
      }
    } else {
      // A slot that an earlier manager reserved for this process, which did not enter it. Processes
      // of another PID namespace cannot be distinguished.
      session_.slots().for_each_in_use([&](SlotNumber given) {
        const SlotTable::Occupant& occupant = session_.slots()[given];
        if (pid > 0 && occupant.process == process && occupant.connection < 0 &&
            session_.slots().is_awaited(given)) {
          deaths_.reclaim(given);
        }
      });
      deaths_.sweep();
      const auto slot =
          session_.slots().assign(process, message.parent, std::move(pidfd), client.socket.get());
      if (!slot) return refuse(client.socket, message, all_slots_taken());
      client.slot = *slot;
      deaths_.watch(*slot);
    }
    answer.slot = client.slot;
    answer.incarnation = session_.slots()[client.slot].incarnation;
  }
  SHMTENSOR_FAULT_POINT("manager.before_welcome");
  reply(client.socket, answer, MessageKind::welcome, &session_.memory().file());
}

// A member that returns has shut down its former connection, or closed it. Its `hello` may be read
// before that end, and before notices: a turn of the loop has events of numbers under which it may
// accept a new connection.
void Server::end_connection(int descriptor) {
  for (int i = 0; i < kMostQueued && serve(descriptor); ++i) {
  }
  // Another process has the connection, too.
  if (const Client* client = clients_.find(descriptor)) deaths_.remove_client(*client);
  deaths_.sweep();
}

void Server::prepare_fork(const Client& client, Fd fd) {
  Message message;
  message.session = session_.id();
  if (!is_socket(fd)) return refuse(client.socket, message, "a fork request needs a socket");
  ask_for_sender(fd);
  if (clients_.full()) {
    return refuse(
        client.socket, message,
        "the manager has too many connections (limit " + std::to_string(Clients::kMost) + ")");
  }
  // Before a slot is reserved for the child: a connection without a slot may stay, like that of a
  // process which has just connected.
  Client& child = clients_.add(std::move(fd));
  const auto slot = session_.slots().assign_to_child(session_.slots()[client.slot].process.pid,
                                                     child.socket.get());
  if (!slot) return refuse(client.socket, message, all_slots_taken());
  child.slot = *slot;
  message.slot = *slot;
  message.incarnation = session_.slots()[*slot].incarnation;
  SHMTENSOR_FAULT_POINT("manager.before_fork_reply");
  reply(client.socket, message, MessageKind::done);
}

void Server::identify_child(const Client& client, pid_t sender) {
  if (client.slot == kNoSlot || !session_.slots()[client.slot].forking) return;
  const ProcessIdentity child{sender, start_time_of(sender)};
  session_.slots().identify(client.slot, child, open_pidfd(child));
  deaths_.watch(client.slot);
}

void Server::note_registered(const Client& client) {
  if (client.slot != kNoSlot) session_.slots()[client.slot].registered = true;
}

}  // namespace shmtensor
