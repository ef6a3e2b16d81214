// Handles requests about queues: keeps the pipes of those that processes watch, and describes
// queues.
#pragma once

#include "manager/clients.hpp"
#include "manager/protocol.hpp"
#include "manager/served_session.hpp"
#include "manager/watched_queues.hpp"
#include "os/fd.hpp"
#include "os/poller.hpp"

namespace shmtensor {

/// Threads: one.
class QueueRequests {
 public:
  QueueRequests(ServedSession& session, Poller& poller) : session_(session), poller_(poller) {}

  void watch(const Client& client, const Message& message, Fd fd);
  void find_ready_pipe(const Client& client, const Message& message) const;
  void wake_watchers(const Client& client, const Message& message) const;
  void describe_next(const Client& client, const Message& message);

  /// For a queue that was repaired.
  void raise(const WatchedQueue& queue) const noexcept { queues_.raise(queue); }
  /// For a process that could not notify the manager.
  void raise_all() const noexcept { queues_.raise_all(); }
  /// For the queues of a pipe of which an end has ended.
  void raise_hung_up();
  /// For a socket of a process that watches: the process has closed its end, or has ended.
  void remove(int descriptor);

 private:
  ServedSession& session_;
  Poller& poller_;
  WatchedQueues queues_;
};

}  // namespace shmtensor
