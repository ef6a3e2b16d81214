#include "manager/watched_queues.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/error.hpp"
#include "os/limits.hpp"
#include "os/unix_socket.hpp"

namespace shmtensor {
namespace {

// A socket that takes no more is readable at its other end already.
void send_wakeup(const Fd& socket) noexcept {
  static constexpr std::array<std::byte, 1> kWakeup{};
  try {
    send_message(socket, kWakeup, {}, Wait::never);
  } catch (const Error&) {
    // closed, too: the event loop removes it
  }
}

}  // namespace

// The other descriptors are for connections and arenas.
const Fd* WatchedQueues::add(const WatchedQueue& queue, Fd socket) {
  if (sockets_.size() >= static_cast<std::size_t>(descriptor_limit() / 4)) return nullptr;
  return &sockets_.emplace(queue, std::move(socket))->second;
}

const Fd* WatchedQueues::find(int descriptor) const noexcept {
  const auto at = std::ranges::find_if(
      sockets_, [&](const auto& pair) { return pair.second.get() == descriptor; });
  return at == sockets_.end() ? nullptr : &at->second;
}

void WatchedQueues::remove(int descriptor) noexcept {
  std::erase_if(sockets_, [&](const auto& pair) { return pair.second.get() == descriptor; });
}

void WatchedQueues::wake(const WatchedQueue& queue) const noexcept {
  const auto [first, last] = sockets_.equal_range(queue);
  for (auto at = first; at != last; ++at) send_wakeup(at->second);
}

void WatchedQueues::wake_all() const noexcept {
  for (const auto& [queue, socket] : sockets_) send_wakeup(socket);
}

}  // namespace shmtensor
