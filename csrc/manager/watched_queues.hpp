// The queues that processes watch by a descriptor, and their ready pipes.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "base/atomic.hpp"
#include "os/fd.hpp"
#include "os/ready_pipe.hpp"
#include "queue/watch_flag.hpp"

namespace shmtensor {

/// Threads: one.
class WatchedQueues {
 public:
  struct Watched {
    ReadyPipe pipe;
    /// One of each process that watches; it closes its end when it watches no more.
    std::vector<Fd> sockets;
  };

  /// Returns what belongs to the queue, with this socket as the last one. `number` is the queue's
  /// word for the number of the pipe. Null if too many are watched. Throws OsError.
  [[nodiscard]] const Watched* add(const WatchedQueue& queue, Fd socket,
                                   Atomic<std::uint32_t>& number);
  /// Returns null if no process watches.
  [[nodiscard]] const Watched* find(const WatchedQueue& queue) const noexcept;
  /// The socket with this number, if there is one.
  [[nodiscard]] const Fd* find_socket(int descriptor) const noexcept;
  /// Closes the socket, and after the last one of a queue the pipe.
  void remove_socket(int descriptor) noexcept;

  /// Makes the descriptors of all processes that watch readable.
  void raise(const WatchedQueue& queue) const noexcept;
  /// For each queue.
  void raise_all() const noexcept;

 private:
  std::map<WatchedQueue, Watched> queues_;
};

}  // namespace shmtensor
