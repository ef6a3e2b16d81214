#include "manager/message_pipes.hpp"

#include <span>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "manager/messages.hpp"
#include "os/clock.hpp"
#include "os/unix_socket.hpp"

namespace shmtensor {

void MessagePipes::watch(const Client& client, const Message& message, Fd fd) {
  if (client.slot == kNoSlot) return;
  pipes_.add(message.pipe, std::move(fd), coarse_milliseconds());
}

// A member issues tickets as soon as it has sent `watch_pipe`. If it is killed then, its end may be
// noticed first. It can read no reply any more, so its other requests are not answered.
void MessagePipes::watch_last(const Client& client) {
  for (int i = 0; i < kMostQueued; ++i) {
    try {
      Message message;
      std::optional<Received> received = receive_message(
          client.socket, std::as_writable_bytes(std::span(&message, 1)), Wait::never);
      if (!received || received->size == 0) return;
      if (!is_request(*received, message, session_.id()) || message.kind != MessageKind::watch_pipe)
        continue;
      watch(client, message, received->fds.empty() ? Fd() : std::move(received->fds.front()));
    } catch (const Error&) {
      // The kernel reports once, before the messages, that the sender left replies unread.
    }
  }
}

void MessagePipes::check() {
  const std::optional<std::uint64_t> due = pipes_.next_check();
  const std::uint64_t now = coarse_milliseconds();
  if (!due || now < *due) return;
  const std::vector<std::uint32_t> unread = pipes_.check(now);
  if (!unread.empty()) session_.arenas().cancel_messages_in(session_.memory(), unread);
}

}  // namespace shmtensor
