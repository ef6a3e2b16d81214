// Handles requests about arenas and their chunks of device memory.
#pragma once

#include "arena/segment.hpp"
#include "manager/clients.hpp"
#include "manager/protocol.hpp"
#include "manager/served_session.hpp"
#include "os/fd.hpp"

namespace shmtensor {

/// Threads: one.
class ArenaRequests {
 public:
  explicit ArenaRequests(ServedSession& session) : session_(session) {}

  void statistics(const Client& client, Message message);
  void collect(const Client& client, Message message);
  void add(const Client& client, const Message& message, Fd fd);
  void find(const Client& client, const Message& message);
  void describe_next(const Client& client, const Message& message);
  void retire(const Client& client, const Message& message);
  void keep_chunk(const Client& client, const Message& message, Fd fd);
  void find_chunk(const Client& client, const Message& message);
  void drop_chunk(const Client& client, const Message& message);
  void drain(const Client& client, const Message& message);

 private:
  [[nodiscard]] bool owns(const Client& client, const Segment& segment) const;

  ServedSession& session_;
};

}  // namespace shmtensor
