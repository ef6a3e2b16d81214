#include "manager/queue_requests.hpp"

#include <utility>

#include "manager/event_source.hpp"
#include "manager/messages.hpp"
#include "manager/session_statistics.hpp"

namespace shmtensor {

// The client holds the queue, so its block stays what it is.
void QueueRequests::watch(const Client& client, const Message& message, Fd fd) {
  if (!is_socket(fd)) return refuse(client.socket, message, "a watched queue needs a socket");
  const WatchedQueue queue = queue_of(message);
  QueueHeader* const header = session_.arenas().queue(queue.arena, queue.block);
  if (header == nullptr) return refuse(client.socket, message, "no such queue");
  const auto* const watched = queues_.add(queue, std::move(fd), header->pipe(queue.event));
  if (watched == nullptr) {
    return refuse(client.socket, message,
                  "too many processes wait for queues by descriptors; raise the manager's limit on "
                  "open files");
  }
  const Fd& socket = watched->sockets.back();
  try {
    poller_.add(socket, tag(EventSource::queue, static_cast<std::uint32_t>(socket.get())));
  } catch (...) {
    queues_.remove_socket(socket.get());
    throw;
  }
  reply(client.socket, message, MessageKind::done, &watched->pipe.descriptor());
}

void QueueRequests::find_ready_pipe(const Client& client, const Message& message) const {
  const WatchedQueues::Watched* const watched = queues_.find(queue_of(message));
  if (watched == nullptr || watched->pipe.number() == 0) {
    return reply(client.socket, message, MessageKind::unknown);
  }
  reply(client.socket, message, MessageKind::done, &watched->pipe.descriptor());
}

void QueueRequests::wake_watchers(const Client& client, const Message& message) const {
  if (client.slot != kNoSlot) queues_.raise(queue_of(message));
}

void QueueRequests::describe_next(const Client& client, const Message& message) {
  const auto queue =
      next_queue(session_.arenas(), session_.memory(), message.arena, message.number);
  Message answer = message;
  if (queue) answer.queue = *queue;
  reply(client.socket, answer, queue ? MessageKind::done : MessageKind::unknown);
}

void QueueRequests::raise_hung_up() {
  for (const auto& [arena, block] : session_.arenas().take_hung_up()) {
    for (const QueueEvent event : {QueueEvent::message, QueueEvent::room}) {
      queues_.raise({.arena = arena, .block = block, .event = event});
    }
  }
}

void QueueRequests::remove(int descriptor) {
  const Fd* const socket = queues_.find_socket(descriptor);
  if (socket == nullptr) return;
  poller_.remove(*socket);
  queues_.remove_socket(descriptor);
}

}  // namespace shmtensor
