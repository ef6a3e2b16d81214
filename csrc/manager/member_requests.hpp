// Handles the requests by which processes get their slots.
#pragma once

#include <functional>

#include "manager/clients.hpp"
#include "manager/deaths.hpp"
#include "manager/protocol.hpp"
#include "manager/served_session.hpp"
#include "os/fd.hpp"
#include "os/process.hpp"

namespace shmtensor {

/// Threads: one.
class MemberRequests {
 public:
  MemberRequests(ServedSession& session, Clients& clients, Deaths& deaths)
      : session_(session), clients_(clients), deaths_(deaths) {}

  /// Answers what was sent on a connection and not read yet, and ends the connection.
  using EndConnection = std::function<void(int descriptor)>;

  /// For a member that returns, calls `end` for its former connection.
  void hello(Client& client, const Message& message, Fd fd, const EndConnection& end);
  void fork(const Client& client, Fd fd);
  void child(const Client& client, pid_t sender);
  void registered(const Client& client);

 private:
  /// Return false if no slot is free.
  [[nodiscard]] bool assign(Client& client, const Message& message, ProcessIdentity process,
                            Fd pidfd);
  /// For a member that lost its connection, or whose manager was killed. Returns false if its slot
  /// was reclaimed.
  [[nodiscard]] bool take_back(Client& client, const Message& message, ProcessIdentity process,
                               Fd pidfd, FileIdentity brought, const EndConnection& end);

  ServedSession& session_;
  Clients& clients_;
  Deaths& deaths_;
};

}  // namespace shmtensor
