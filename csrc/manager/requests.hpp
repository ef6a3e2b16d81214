// Receives the requests of processes, and has each answered.
#pragma once

#include "manager/arena_requests.hpp"
#include "manager/clients.hpp"
#include "manager/deaths.hpp"
#include "manager/member_requests.hpp"
#include "manager/protocol.hpp"
#include "manager/queue_requests.hpp"
#include "manager/served_session.hpp"
#include "os/fd.hpp"

namespace shmtensor {

/// Threads: one.
class Requests {
 public:
  Requests(ServedSession& session, Clients& clients, Deaths& deaths, QueueRequests& queues)
      : session_(session), clients_(clients), deaths_(deaths), queues_(queues) {}

  /// Reads one message and answers it. Returns false if there was none, or the connection has
  /// ended.
  bool serve(int descriptor);

 private:
  void answer(Client& client, const Message& message, Fd fd, pid_t sender);
  void end_connection(int descriptor);

  ServedSession& session_;
  Clients& clients_;
  Deaths& deaths_;
  QueueRequests& queues_;
  ArenaRequests arenas_{session_};
  MemberRequests members_{session_, clients_, deaths_};
};

}  // namespace shmtensor
