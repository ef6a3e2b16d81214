// Handles the deaths of members.
#include "base/error.hpp"
#include "manager/event_source.hpp"
#include "manager/recovery.hpp"
#include "manager/server.hpp"
#include "os/clock.hpp"
#include "os/fault_point.hpp"

namespace shmtensor {

void Server::watch(SlotNumber slot) {
  SlotTable::Occupant& occupant = (*slots_)[slot];
  try {
    if (occupant.pidfd) poller_.add(occupant.pidfd, tag(EventSource::process, slot));
  } catch (const Error&) {
    occupant.pidfd.reset();  // as on a kernel without pidfds
  }
}

void Server::remove_client(const Client& client) {
  const SlotNumber slot = client.slot;
  clients_.close(client.socket.get());
  if (slot == kNoSlot) return;
  SlotTable::Occupant& occupant = (*slots_)[slot];
  occupant.connection = -1;
  // A closed connection alone does not prove a death: a program may close all its descriptors. But
  // without a connection there cannot be a forked child that is yet to enter, or a process that
  // waits for its reserved slot.
  if (slots_->is_awaited(slot) || slots_->has_left(slot)) return reclaim_slot(slot);
  // The kernel may be about to release the lock of a process that executes another program.
  recheck_at_ = coarse_milliseconds() + kFirstRecheckMilliseconds;
}

void Server::check_slot(SlotNumber slot) {
  if (!slots_ || !(*slots_)[slot].taken || dead_.has(slot)) return;
  const bool watched = static_cast<bool>((*slots_)[slot].pidfd);
  if (slots_->has_left(slot)) return reclaim_slot(slot);
  if (!watched) watch(slot);  // a forked child may have stored its pid
}

void Server::recheck_slots() {
  const std::uint64_t now = coarse_milliseconds();
  const bool due = now >= recheck_at_;
  if (due) recheck_at_ = now + kRecheckMilliseconds;
  slots_->for_each_in_use([&](SlotNumber slot) {
    const SlotTable::Occupant& occupant = (*slots_)[slot];
    // No event wakes the manager for these slots.
    if (!occupant.pidfd || (due && occupant.connection < 0)) check_slot(slot);
  });
  if (due && !knows_all_arenas_) find_arenas();
}

void Server::reclaim_slot(SlotNumber slot) {
  if (!slots_->withdraw(slot)) return;
  const int connection = (*slots_)[slot].connection;
  if (const Client* client = clients_.find(connection)) watch_last_pipes(*client);
  clients_.close(connection);
  dead_.add(slot);
}

// For members that could not map a ticket table. A process that fails to check a block after this
// clears the mark marks its slot again.
void Server::try_postponed_frees() {
  if (!slots_) return;
  bool any = false;
  slots_->for_each_in_use([&](SlotNumber slot) {
    std::atomic<std::uint32_t>& postponed = memory_->slot(slot).frees_postponed;
    if (postponed.load() == 0) return;
    postponed.store(0);
    any = true;
  });
  if (any) registry_.sweep(*memory_, {});
}

// One walk over all blocks for all slots that were found dead in a turn of the loop.
void Server::sweep_dead() {
  if (dead_.planes() == 0) return;
  registry_.sweep(*memory_, dead_, [this](const WatchedQueue& queue) { queues_.raise(queue); });
  SHMTENSOR_FAULT_POINT("manager.before_release");
  std::uint64_t count = 0;
  slots_->for_each_in_use([&](SlotNumber slot) {
    if (!dead_.has(slot)) return;
    slots_->release(slot);
    ++count;
  });
  dead_ = {};
  // When owners see this change, they compare the block table with their bookkeeping.
  memory_->header().deaths.fetch_add(count);
  registry_.notify_owners();
  // Last, because processes may wait for the blocks of the dead process.
  if (!knows_all_arenas_) return;
  remove_unregistered(session_, [this](ArenaNumber arena) { return registry_.find(arena); });
}

}  // namespace shmtensor
