#include "manager/deaths.hpp"

#include "base/error.hpp"
#include "manager/event_source.hpp"
#include "manager/recovery.hpp"
#include "os/clock.hpp"
#include "os/fault_point.hpp"

namespace shmtensor {
namespace {

constexpr int kIdleMilliseconds = 250;
constexpr int kRecheckMilliseconds = 1'000;    // between checks of slots without a connection
constexpr int kFirstRecheckMilliseconds = 20;  // from a broken connection to the first check

}  // namespace

void Deaths::watch(SlotNumber slot) {
  SlotTable::Occupant& occupant = session_.slots()[slot];
  try {
    if (occupant.pidfd) poller_.add(occupant.pidfd, tag(EventSource::process, slot));
  } catch (const Error&) {
    occupant.pidfd.reset();  // as on a kernel without pidfds
  }
}

void Deaths::watch_all() {
  session_.slots().for_each_in_use([this](SlotNumber slot) { watch(slot); });
}

void Deaths::remove_client(const Client& client) {
  const SlotNumber slot = client.slot;
  clients_.close(client.socket.get());
  if (slot == kNoSlot) return;
  SlotTable::Occupant& occupant = session_.slots()[slot];
  occupant.connection = -1;
  // A closed connection alone does not prove a death: a program may close all its descriptors. But
  // without a connection there cannot be a forked child that is yet to enter, or a process that
  // waits for its reserved slot.
  if (session_.slots().is_awaited(slot) || session_.slots().has_left(slot)) return reclaim(slot);
  // The kernel may be about to release the lock of a process that executes another program.
  recheck_at_ = coarse_milliseconds() + kFirstRecheckMilliseconds;
}

void Deaths::check(SlotNumber slot) {
  if (!session_.exists() || !session_.slots()[slot].taken || dead_.has(slot)) return;
  const bool watched = static_cast<bool>(session_.slots()[slot].pidfd);
  if (session_.slots().has_left(slot)) return reclaim(slot);
  if (!watched) watch(slot);  // a forked child may have stored its pid
}

void Deaths::recheck() {
  if (!session_.exists()) return;
  const std::uint64_t now = coarse_milliseconds();
  const bool due = now >= recheck_at_;
  if (due) recheck_at_ = now + kRecheckMilliseconds;
  session_.slots().for_each_in_use([&](SlotNumber slot) {
    const SlotTable::Occupant& occupant = session_.slots()[slot];
    // No event wakes the manager for these slots.
    if (!occupant.pidfd || (due && occupant.connection < 0)) check(slot);
  });
  if (due && !session_.knows_all_arenas()) session_.find_arenas();
}

void Deaths::reclaim(SlotNumber slot) {
  if (!session_.slots().withdraw(slot)) return;
  clients_.close(session_.slots()[slot].connection);
  dead_.add(slot);
}

void Deaths::sweep() {
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

int Deaths::timeout() const {
  if (!session_.exists() || !session_.slots().any_known()) return kIdleMilliseconds;
  bool all_watched = true;
  bool all_connected = true;
  session_.slots().for_each_in_use([&](SlotNumber slot) {
    if (session_.slots().is_unknown(slot)) return;  // its end cannot be detected
    const SlotTable::Occupant& occupant = session_.slots()[slot];
    all_watched = all_watched && occupant.pidfd;
    all_connected = all_connected && occupant.connection >= 0;
  });
  if (!all_watched) return kIdleMilliseconds;
  if (all_connected && session_.knows_all_arenas()) return -1;
  const std::uint64_t now = coarse_milliseconds();
  return now < recheck_at_ ? static_cast<int>(recheck_at_ - now) : 0;
}

}  // namespace shmtensor
