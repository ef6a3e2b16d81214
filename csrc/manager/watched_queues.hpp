// The sockets by which the manager wakes processes that wait for a queue by a descriptor.
#pragma once

#include <cstddef>
#include <map>

#include "os/fd.hpp"
#include "queue/watch_flag.hpp"

namespace shmtensor {

/// Threads: one.
class WatchedQueues {
 public:
  /// Takes ownership of the socket. Returns null if too many are watched.
  const Fd* add(const WatchedQueue& queue, Fd socket);
  /// The socket with this number, if there is one.
  [[nodiscard]] const Fd* find(int descriptor) const noexcept;
  void remove(int descriptor) noexcept;

  /// Makes the descriptors of all processes that wait for this readable.
  void wake(const WatchedQueue& queue) const noexcept;
  void wake_all() const noexcept;

 private:
  std::multimap<WatchedQueue, Fd> sockets_;
};

}  // namespace shmtensor
