#include "manager/requests.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "manager/messages.hpp"
#include "os/unix_socket.hpp"

namespace shmtensor {
namespace {

// The requests that only a member may make; an observer has no slot.
constexpr std::array kMemberRequests{
    MessageKind::register_arena, MessageKind::find_arena,      MessageKind::keep_chunk,
    MessageKind::find_chunk,     MessageKind::drop_chunk,      MessageKind::retire_arena,
    MessageKind::watch_queue,    MessageKind::find_ready_pipe, MessageKind::fork};

bool is_notice(MessageKind kind) noexcept {
  return kind == MessageKind::drain || kind == MessageKind::wake_watchers ||
         kind == MessageKind::registered;
}

bool needs_slot(MessageKind request) noexcept {
  return std::ranges::find(kMemberRequests, request) != kMemberRequests.end();
}

}  // namespace

bool Requests::serve(int descriptor) {
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
      deaths_.remove_client(*client);  // the client does not read, or has ended with replies unread
    }
  }
  return true;
}

void Requests::answer(Client& client, const Message& message, Fd fd, pid_t sender) {
  deaths_.sweep();
  if (session_.try_postponed_frees()) queues_.raise_all();
  if (message.kind == MessageKind::hello) {
    return members_.hello(client, message, std::move(fd),
                          [this](int descriptor) { end_connection(descriptor); });
  }
  if (message.kind == MessageKind::child) return members_.child(client, sender);
  if (message.kind == MessageKind::drain) return arenas_.drain(client, message);
  if (message.kind == MessageKind::wake_watchers) return queues_.wake_watchers(client, message);
  if (message.kind == MessageKind::registered) return members_.registered(client);
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
      return members_.fork(client, std::move(fd));
    default:
      return refuse(client.socket, message, "unknown request type");
  }
}

// A member that returns has shut down its former connection, or closed it. Its `hello` may be read
// before that end, and before notices: a turn of the loop has events of numbers under which it may
// accept a new connection.
void Requests::end_connection(int descriptor) {
  for (int i = 0; i < kMostQueued && serve(descriptor); ++i) {
  }
  // Another process has the connection, too.
  if (const Client* client = clients_.find(descriptor)) deaths_.remove_client(*client);
  deaths_.sweep();
}

}  // namespace shmtensor
