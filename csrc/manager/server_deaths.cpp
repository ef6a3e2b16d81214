// Handles the deaths of members.
#include "base/error.hpp"
#include "manager/recovery.hpp"
#include "manager/server.hpp"
#include "os/clock.hpp"
#include "os/fault_point.hpp"

namespace shmtensor {

void Server::watch(SlotNumber slot) {
  Seats::Seat& seat = (*seats_)[slot];
  try {
    if (seat.pidfd) poller_.add(seat.pidfd, tag(kProcess, slot));
  } catch (const Error&) {
    seat.pidfd.reset();  // as on a kernel without pidfds
  }
}

void Server::drop_line(int descriptor) {
  const SlotNumber slot = lines_.at(descriptor).slot;
  close_line(descriptor);
  if (slot == kNoSlot) return;
  Seats::Seat& seat = (*seats_)[slot];
  seat.line = -1;
  // A closed connection alone does not prove a death: a program may close all its descriptors. But
  // without a connection there cannot be a forked child that is yet to enter, or a process that
  // waits for its reserved slot.
  if (seats_->is_awaited(slot) || seats_->has_left(slot)) return vacate(slot);
  // The kernel may be about to release the lock of a process that executes another program.
  look_at_ = coarse_milliseconds() + kSoonMilliseconds;
}

void Server::check_seat(SlotNumber slot) {
  if (!seats_ || !(*seats_)[slot].taken) return;
  const bool watched = static_cast<bool>((*seats_)[slot].pidfd);
  if (seats_->has_left(slot)) return vacate(slot);
  if (!watched) watch(slot);  // a forked child may have stored its pid
}

void Server::look_again() {
  const std::uint64_t now = coarse_milliseconds();
  const bool due = now >= look_at_;
  if (due) look_at_ = now + kLookMilliseconds;
  seats_->for_each_taken([&](SlotNumber slot) {
    const Seats::Seat& seat = (*seats_)[slot];
    // No event wakes the manager for these slots.
    if (!seat.pidfd || (due && seat.line < 0)) check_seat(slot);
  });
  if (due && !knows_all_arenas_) find_arenas();
}

void Server::vacate(SlotNumber slot) {
  if (!seats_->shut(slot)) return;
  close_line((*seats_)[slot].line);
  directory_.sweep(*memory_, slot);
  SHMTENSOR_FAULT_POINT("manager.before_vacate");
  seats_->vacate(slot);
  // When owners see this change, they compare the block table with their bookkeeping.
  memory_->header().deaths.fetch_add(1);
  directory_.tell_owners();
  // Last, because processes may wait for the blocks of the dead process.
  if (!knows_all_arenas_) return;
  remove_unregistered(session_, [this](ArenaNumber arena) { return directory_.find(arena); });
}

}  // namespace shmtensor
