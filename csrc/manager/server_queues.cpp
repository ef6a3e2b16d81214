// Handles requests about queues: wakes processes that wait by a descriptor, and describes queues.
#include <utility>

#include "manager/server.hpp"
#include "os/unix_socket.hpp"

namespace shmtensor {
namespace {

WatchedQueue queue_of(const Message& message) noexcept {
  return {.arena = message.arena,
          .block = static_cast<BlockNumber>(message.number),
          .event = message.event};
}

}  // namespace

void Server::watch_queue(const Client& client, const Message& message, Fd fd) {
  if (!is_socket(fd)) return refuse(client.socket, message, "a watched queue needs a socket");
  const Fd* const kept = queues_.add(queue_of(message), std::move(fd));
  if (kept == nullptr) {
    return refuse(client.socket, message,
                  "too many processes wait for queues by descriptors; raise the manager's limit on "
                  "open files");
  }
  poller_.add(*kept, tag(kQueue, static_cast<std::uint32_t>(kept->get())));
  reply(client.socket, message, MessageKind::done);
}

void Server::wake_watchers(const Client& client, const Message& message) {
  if (client.slot != kNoSlot) queues_.wake(queue_of(message));
}

void Server::next_queue(const Client& client, const Message& message) {
  const auto queue = registry_.next_queue(*memory_, message.arena, message.number);
  Message answer = message;
  if (queue) answer.queue = *queue;
  reply(client.socket, answer, queue ? MessageKind::done : MessageKind::unknown);
}

// The process closed its end, or has ended.
void Server::remove_queue(int descriptor) {
  const Fd* const socket = queues_.find(descriptor);
  if (socket == nullptr) return;
  poller_.remove(*socket);
  queues_.remove(descriptor);
}

}  // namespace shmtensor
