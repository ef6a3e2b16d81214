// Watches the pipes that carry messages, and cancels the messages that no process can read any
// more.
#pragma once

#include <cstdint>
#include <optional>

#include "manager/clients.hpp"
#include "manager/protocol.hpp"
#include "manager/served_session.hpp"
#include "manager/watched_pipes.hpp"
#include "os/fd.hpp"

namespace shmtensor {

/// Threads: one.
class MessagePipes {
 public:
  explicit MessagePipes(ServedSession& session) : session_(session) {}

  void watch(const Client& client, const Message& message, Fd fd);
  /// Reads what a client that has ended has sent before.
  void watch_last(const Client& client);

  [[nodiscard]] std::optional<std::uint64_t> next_check() const noexcept {
    return pipes_.next_check();
  }
  /// Does nothing before the time of the next check.
  void check();

 private:
  WatchedPipes pipes_;
  ServedSession& session_;
};

}  // namespace shmtensor
