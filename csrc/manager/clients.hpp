// The connections of processes to this manager.
#pragma once

#include <cstddef>
#include <map>

#include "base/ids.hpp"
#include "os/fd.hpp"
#include "os/poller.hpp"

namespace shmtensor {

/// A connection. That of an observer, or of a process which has just connected, has no slot.
struct Client {
  Fd socket;
  SlotNumber slot = kNoSlot;
};

/// Accepts connections, and watches them for requests.
/// Threads: one.
class Clients {
 public:
  static constexpr std::size_t kMost = 4096;

  Clients(Fd listener, Poller& poller);

  void accept_some();
  /// Throws OsError if the socket cannot be watched.
  Client& add(Fd socket);
  /// Returns null if there is none.
  [[nodiscard]] Client* find(int descriptor) noexcept;
  [[nodiscard]] bool full() const noexcept { return clients_.size() >= kMost; }
  void close(int descriptor) noexcept;

  [[nodiscard]] const Fd& listener() const noexcept { return listener_; }
  void stop_listening() noexcept { listener_.reset(); }

 private:
  bool reject();

  Poller& poller_;
  Fd listener_;
  Fd spare_;  ///< closed temporarily to accept and close a connection when descriptors are short
  std::map<int, Client> clients_;
};

}  // namespace shmtensor
