// Watches the pipes that carry messages, and cancels the messages that no process can read any
// more.
#include <optional>
#include <utility>
#include <vector>

#include "manager/server.hpp"
#include "os/clock.hpp"

namespace shmtensor {

void Server::watch_pipe(const Client& client, const Message& message, Fd fd) {
  if (client.slot == kNoSlot) return;
  const std::uint64_t now = coarse_milliseconds();
  if (fd) return pipes_.add(message.pipe, std::move(fd), now);
  pipes_.add(UnixSocketId{message.pipe, message.number}, now);
}

void Server::check_pipes() {
  const std::optional<std::uint64_t> due = pipes_.next_check();
  const std::uint64_t now = coarse_milliseconds();
  if (!due || now < *due) return;
  const std::vector<std::uint32_t> unread = pipes_.check(now);
  if (!unread.empty()) registry_.cancel_messages_in(*memory_, unread);
}

}  // namespace shmtensor
