// Who has left the session.
#include "base/error.hpp"
#include "manager/recovery.hpp"
#include "manager/server.hpp"
#include "os/clock.hpp"
#include "os/fault_point.hpp"

namespace shmtensor {
namespace {

constexpr int kLooksAtOnce = 8;

}  // namespace

void Server::watch(SlotNumber slot) {
  Seats::Seat& seat = (*seats_)[slot];
  try {
    if (seat.pidfd) poller_.add(seat.pidfd, tag(kProcess, slot));
  } catch (const Error&) {
    seat.pidfd.reset();  // as on a kernel without them
  }
}

void Server::drop_line(int descriptor) {
  const SlotNumber slot = lines_.at(descriptor).slot;
  close_line(descriptor);
  if (slot == kNoSlot) return;
  Seats::Seat& seat = (*seats_)[slot];
  seat.line = -1;
  seat.forking = false;  // nobody is left who could be that child
  if (seats_->has_ended(slot) || seats_->has_forgotten(slot)) vacate(slot);
}

void Server::check_seat(SlotNumber slot) {
  if (!seats_ || !(*seats_)[slot].taken) return;
  const bool watched = static_cast<bool>((*seats_)[slot].pidfd);
  if (seats_->has_ended(slot)) return vacate(slot);
  if (!watched) watch(slot);  // a forked child may have said who it is
}

void Server::look_again() {
  const std::uint64_t now = coarse_milliseconds();
  if (now - looked_at_ < static_cast<std::uint64_t>(kLookMilliseconds)) return;
  looked_at_ = now;
  if (!knows_all_arenas_) find_arenas();
  int looks = 0;
  for (SlotNumber i = 0; i < kMaxSlots && looks < kLooksAtOnce; ++i) {
    looked_until_ = static_cast<SlotNumber>((looked_until_ + 1) % kMaxSlots);
    const Seats::Seat& seat = (*seats_)[looked_until_];
    if (!seat.taken || seat.forking || seat.unknown || seat.line >= 0) continue;
    // It has its answer from a manager that was killed, and will map the memory when it gets to it.
    if (seats_->is_joining(looked_until_)) continue;
    ++looks;
    if (seats_->has_forgotten(looked_until_)) vacate(looked_until_);
  }
}

void Server::vacate(SlotNumber slot) {
  close_line((*seats_)[slot].line);
  directory_.sweep(*memory_, slot);
  SHMTENSOR_FAULT_POINT("manager.before_vacate");
  seats_->vacate(slot);
  // Owners compare their tables with their books when they see this move.
  memory_->header().deaths.fetch_add(1);
  directory_.tell_owners();
  // Last: who waits for the dead one's blocks has them by now.
  if (!knows_all_arenas_) return;
  remove_unregistered(session_, [this](ArenaNumber arena) { return directory_.find(arena); });
}

}  // namespace shmtensor
