// Handles the deaths of members.
#include "base/error.hpp"
#include "manager/event_source.hpp"
#include "manager/recovery.hpp"
#include "manager/server.hpp"
#include "os/clock.hpp"
#include "os/fault_point.hpp"

namespace shmtensor {

void Server::watch(SlotNumber slot) {
  SlotTable::Occupant& occupant = session_.slots()[slot];
  try {
    if (occupant.pidfd) poller_.add(occupant.pidfd, tag(EventSource::process, slot));
  } catch (const Error&) {
    occupant.pidfd.reset();  // as on a kernel without pidfds
  }
}

void Server::watch_all() {
  session_.slots().for_each_in_use([this](SlotNumber slot) { watch(slot); });
}

void Server::remove_client(const Client& client) {
  const SlotNumber slot = client.slot;
  clients_.close(client.socket.get());
  if (slot == kNoSlot) return;
  SlotTable::Occupant& occupant = session_.slots()[slot];
  occupant.connection = -1;
  // A closed connection alone does not prove a death: a program may close all its descriptors. But
  // without a connection there cannot be a forked child that is yet to enter, or a process that
  // waits for its reserved slot.
  if (session_.slots().is_awaited(slot) || session_.slots().has_left(slot))
    return reclaim_slot(slot);
  // The kernel may be about to release the lock of a process that executes another program.
  recheck_at_ = coarse_milliseconds() + kFirstRecheckMilliseconds;
}

void Server::check_slot(SlotNumber slot) {
  if (!session_.exists() || !session_.slots()[slot].taken || dead_.has(slot)) return;
  const bool watched = static_cast<bool>(session_.slots()[slot].pidfd);
  if (session_.slots().has_left(slot)) return reclaim_slot(slot);
  if (!watched) watch(slot);  // a forked child may have stored its pid
}

void Server::recheck_slots() {
  const std::uint64_t now = coarse_milliseconds();
  const bool due = now >= recheck_at_;
  if (due) recheck_at_ = now + kRecheckMilliseconds;
  session_.slots().for_each_in_use([&](SlotNumber slot) {
    const SlotTable::Occupant& occupant = session_.slots()[slot];
    // No event wakes the manager for these slots.
    if (!occupant.pidfd || (due && occupant.connection < 0)) check_slot(slot);
  });
  if (due && !session_.knows_all_arenas()) session_.find_arenas();
}

void Server::reclaim_slot(SlotNumber slot) {
  if (!session_.slots().withdraw(slot)) return;
  const int connection = session_.slots()[slot].connection;
  if (const Client* client = clients_.find(connection)) pipes_.watch_last(*client);
  clients_.close(connection);
  dead_.add(slot);
}

// One walk over all blocks for all slots that were found dead in a turn of the loop.
void Server::sweep_dead() {
  if (dead_.planes() == 0) return;
  session_.arenas().sweep(session_.memory(), dead_,
                          [this](const WatchedQueue& queue) { queues_.raise(queue); });
  SHMTENSOR_FAULT_POINT("manager.before_release");
  std::uint64_t count = 0;
  session_.slots().for_each_in_use([&](SlotNumber slot) {
    if (!dead_.has(slot)) return;
    session_.slots().release(slot);
    ++count;
  });
  dead_ = {};
  // When owners see this change, they compare the block table with their bookkeeping.
  session_.memory().header().deaths.fetch_add(count);
  session_.arenas().notify_owners();
  // Last, because processes may wait for the blocks of the dead process.
  if (!session_.knows_all_arenas()) return;
  remove_unregistered(session_.id(),
                      [this](ArenaNumber arena) { return session_.arenas().find(arena); });
}

}  // namespace shmtensor
