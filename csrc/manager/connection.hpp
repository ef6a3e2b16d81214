// A process's line to its manager.
#pragma once

#include <optional>
#include <string>

#include "manager/protocol.hpp"
#include "os/fd.hpp"

namespace shmtensor {

/// What came back: the message and the descriptor it brought, if any.
struct Reply {
  Message message;
  Fd fd;
};

/// Threads: behind the session's lock.
class Connection {
 public:
  Connection() = default;

  /// Connects to the session's manager, starting one if nobody listens and `program` is not empty.
  /// An empty connection when nobody listens. Throws SessionError, OsError.
  static Connection open(const SessionId& session, const std::string& program);

  /// Takes over a socket that is connected already, as a forked child does.
  explicit Connection(Fd socket);

  /// Sends the request, with a copy of `descriptor` unless that is -1, and waits for the answer.
  /// Nothing when the line is broken: the manager is gone. Throws SessionError when it does not
  /// answer in time or refuses. A line on which something else failed, or whose `hello` was
  /// refused, is ended.
  [[nodiscard]] std::optional<Reply> ask(const Message& request, int descriptor = -1);

  /// For the fork handler of a child: sends without waiting for an answer.
  bool tell(const Message& message) noexcept;

  explicit operator bool() const noexcept { return static_cast<bool>(socket_); }

  /// Closes the descriptor, or forgets one that is no longer ours. For a forked child: the line is
  /// the parent's.
  void close() noexcept;
  /// Ends the line, also where a child that was just forked still has it open.
  void hang_up() noexcept;

 private:
  Fd socket_;
  FileIdentity identity_;
};

/// The abstract name on which a session's manager listens.
[[nodiscard]] std::string manager_address(const SessionId& session);

}  // namespace shmtensor
