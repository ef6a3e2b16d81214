// Finds the deaths of members, and sweeps what they held.
#pragma once

#include <cstdint>

#include "arena/slot_set.hpp"
#include "manager/clients.hpp"
#include "manager/queue_requests.hpp"
#include "manager/served_session.hpp"
#include "os/poller.hpp"

namespace shmtensor {

/// Threads: one.
class Deaths {
 public:
  Deaths(ServedSession& session, Clients& clients, const QueueRequests& queues, Poller& poller)
      : session_(session), clients_(clients), queues_(queues), poller_(poller) {}

  /// Watches the process in a slot.
  void watch(SlotNumber slot);
  void watch_all();
  /// Closes the connection, and checks the process that had it.
  void remove_client(const Client& client);
  /// Checks the process in a slot.
  void check(SlotNumber slot);
  /// Checks the processes whose end no event reports.
  void recheck();
  /// For a slot whose process has left, or has not entered: it is free after the next sweep.
  void reclaim(SlotNumber slot);
  /// Walks over all blocks once for all slots that were reclaimed since the last time.
  void sweep();

  /// Returns the milliseconds until the next check; -1 if events report everything.
  [[nodiscard]] int timeout() const;

 private:
  ServedSession& session_;
  Clients& clients_;
  const QueueRequests& queues_;
  Poller& poller_;
  SlotSet dead_;
  std::uint64_t recheck_at_ = 0;  ///< milliseconds; time of the next check of slots without a
                                  ///< connection
};

}  // namespace shmtensor
