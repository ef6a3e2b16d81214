// The connection of a process to the manager of its session.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "manager/protocol.hpp"
#include "os/fd.hpp"

namespace shmtensor {

/// A reply, and the descriptor that it carries, if any.
struct Reply {
  Message message;
  Fd fd;
};

/// Threads: protected by the session's lock.
class Connection {
 public:
  Connection() = default;

  /// Connects to the session's manager. If no manager listens and `program` is not empty, starts
  /// one; if `program` is empty, returns an empty connection. Throws SessionError, OsError.
  static Connection open(const SessionId& session, const std::string& program);

  /// Takes ownership of a connected socket, as a forked child does.
  explicit Connection(Fd socket);

  /// Sends the request, with a copy of `descriptor` unless that is -1, and waits for the answer.
  /// Nothing if the connection is broken, because the manager has ended. Throws SessionError if the
  /// manager does not answer within the timeout or refuses. The connection is closed after any
  /// other failure, and after a refused `hello`. A manager that did not answer one request gets the
  /// short timeout for the next ones, on any connection of this process.
  [[nodiscard]] std::optional<Reply> ask(const Message& request, int descriptor = -1);

  /// Sends a message that has no answer, with a copy of `descriptor` unless that is -1. Never
  /// waits. Returns false if the message could not be sent now.
  bool notify(const Message& message, int descriptor = -1) noexcept;

  [[nodiscard]] const Fd& socket() const noexcept { return socket_; }
  explicit operator bool() const noexcept { return static_cast<bool>(socket_); }

  /// Closes the descriptor. If the program closed it before, only forgets its number. A forked
  /// child calls this, because the connection is the parent's.
  void close() noexcept;
  /// Shuts the connection down, also for a child that was just forked and still has it open.
  void shut_down() noexcept;

 private:
  std::optional<Reply> exchange(const Message& request, int descriptor);

  Fd socket_;
  FileIdentity identity_;
  std::chrono::milliseconds timeout_ = kTimeout;  ///< of the socket
  pid_t manager_ = 0;                             ///< 0: not known, or of another PID namespace
};

/// Reaps managers that have ended and that are children of this process, because it adopts orphans:
/// it is PID 1 of a container, or a subreaper.
void reap_managers();

}  // namespace shmtensor
