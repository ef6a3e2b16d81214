// The manager's event loop: one thread, one epoll instance, no Python.
#pragma once

#include <cstdint>

#include "manager/arena_requests.hpp"
#include "manager/clients.hpp"
#include "manager/deaths.hpp"
#include "manager/member_requests.hpp"
#include "manager/message_pipes.hpp"
#include "manager/protocol.hpp"
#include "manager/queue_requests.hpp"
#include "manager/served_session.hpp"
#include "os/fd.hpp"
#include "os/poller.hpp"

namespace shmtensor {

/// Serves one session until its last process has left.
class Server {
 public:
  Server(SessionId session, Fd listener);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Returns when no process is left.
  void run();

 private:
  // server.cpp
  [[nodiscard]] int timeout();
  [[nodiscard]] bool finished();

  // server_requests.cpp
  /// Reads one message and answers it. Returns false if there was none, or the connection has
  /// ended.
  bool serve(int descriptor);
  void answer(Client& client, const Message& message, Fd fd, pid_t sender);
  void end_connection(int descriptor);

  Poller poller_;
  Clients clients_;
  ServedSession session_;
  MessagePipes pipes_{clients_.listener(), session_};
  QueueRequests queues_{session_, poller_};
  Deaths deaths_{session_, clients_, pipes_, queues_, poller_};
  ArenaRequests arenas_{session_};
  MemberRequests members_{session_, clients_, deaths_};
  std::uint64_t empty_since_ = 0;
};

}  // namespace shmtensor
