// The manager's event loop: one thread, one epoll instance, no Python.
#pragma once

#include <cstdint>
#include <optional>

#include "manager/clients.hpp"
#include "manager/deaths.hpp"
#include "manager/queue_requests.hpp"
#include "manager/requests.hpp"
#include "manager/served_session.hpp"
#include "os/fd.hpp"
#include "os/poller.hpp"

namespace shmtensor {

/// Serves one session until its last process has left. Waits, and passes each event to the object
/// that handles it.
class Server {
 public:
  Server(SessionId session, Fd listener);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Returns when no process is left.
  void run();

 private:
  [[nodiscard]] int timeout();
  [[nodiscard]] bool finished();

  Poller poller_;
  Clients clients_;
  ServedSession session_;
  QueueRequests queues_{session_, poller_};
  Deaths deaths_{session_, clients_, queues_, poller_};
  Requests requests_{session_, clients_, deaths_, queues_};
  std::uint64_t empty_since_ = 0;
  std::optional<std::uint64_t> kept_for_;  ///< milliseconds, by names, without a process
};

}  // namespace shmtensor
