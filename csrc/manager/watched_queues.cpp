#include "manager/watched_queues.hpp"

#include <algorithm>
#include <utility>

#include "os/limits.hpp"

namespace shmtensor {

// The other descriptors are for connections and arenas. The pipe may be that of an earlier queue in
// the same block, or of an earlier manager, whose watchers find their sockets closed. A new one is
// raised: the client lowers it if the event has not happened.
const WatchedQueues::Watched* WatchedQueues::add(const WatchedQueue& queue, Fd socket,
                                                 Atomic<std::uint32_t>& number) {
  std::size_t descriptors = 0;
  for (const auto& [other, watched] : queues_) descriptors += 1 + watched.sockets.size();
  if (descriptors + 2 > static_cast<std::size_t>(descriptor_limit() / 4)) return nullptr;
  ReadyPipe pipe;
  const Watched* const known = find(queue);
  if (known == nullptr || known->pipe.number() == 0 || known->pipe.number() != number.load()) {
    pipe = ReadyPipe::create();
    pipe.raise();
  }
  Watched& watched = queues_[queue];
  watched.sockets.push_back(std::move(socket));
  if (pipe.number() != 0) {
    watched.pipe = std::move(pipe);
    number.store(watched.pipe.number());
  }
  return &watched;
}

const WatchedQueues::Watched* WatchedQueues::find(const WatchedQueue& queue) const noexcept {
  const auto at = queues_.find(queue);
  return at == queues_.end() ? nullptr : &at->second;
}

const Fd* WatchedQueues::find_socket(int descriptor) const noexcept {
  for (const auto& [queue, watched] : queues_) {
    for (const Fd& socket : watched.sockets) {
      if (socket.get() == descriptor) return &socket;
    }
  }
  return nullptr;
}

void WatchedQueues::remove_socket(int descriptor) noexcept {
  for (auto& [queue, watched] : queues_) {
    std::erase_if(watched.sockets, [&](const Fd& one) { return one.get() == descriptor; });
  }
  std::erase_if(queues_, [](const auto& pair) { return pair.second.sockets.empty(); });
}

// A pipe that is raised stays as it is: a process that lowers it at this moment would find a second
// byte only later.
void WatchedQueues::raise(const WatchedQueue& queue) const noexcept {
  const Watched* const watched = find(queue);
  if (watched != nullptr && !watched->pipe.is_raised()) watched->pipe.raise();
}

void WatchedQueues::raise_all() const noexcept {
  for (const auto& [queue, watched] : queues_) raise(queue);
}

}  // namespace shmtensor
