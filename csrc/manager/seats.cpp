#include "manager/seats.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "os/clock.hpp"
#include "os/fault_point.hpp"
#include "os/file_space.hpp"
#include "os/mapping.hpp"
#include "os/process_lock.hpp"

namespace shmtensor {
namespace {

// How long a slot is reserved for a process that has no connection and has not entered. The process
// was killed, or its fork failed, while no manager ran. If it enters later, the reservation is
// cancelled, and it requests another slot.
constexpr std::uint64_t kEntryMilliseconds = 5'000;

}  // namespace

void Seats::take_over() {
  for (SlotNumber slot = 0; slot < kMaxSlots; ++slot) {
    SlotRecord& record = memory_.slot(slot);
    Seat& seat = seats_[slot];
    seat.life = record.life.load();
    if (seat.life != 0) remember_parent(record.parent.load());
    const SlotStatus status = record.status.load();
    if (status == SlotStatus::unused || status > SlotStatus::unlocked) continue;
    seat.taken = true;
    ++taken_;
    seat.since = coarse_milliseconds();
    seat.forking = status == SlotStatus::forking && record.pid.load() == 0;
    if (!seat.forking) settle_by_table(slot);
  }
}

// A pid is valid only in the namespace of the process that wrote it: an earlier manager, or a
// forked child.
void Seats::settle_by_table(SlotNumber slot) {
  Seat& seat = seats_[slot];
  const SlotRecord& record = memory_.slot(slot);
  const ProcessIdentity process{record.pid.load(), record.start_time.load()};
  seat.forking = false;
  if (process.pid == 0 || namespace_ == 0 || record.pid_namespace.load() != namespace_) return;
  seat.process = process;
  seat.pidfd = open_pidfd(process);
}

// Returns the lowest free slot, so that few planes of holder bits are in use. Slots without live
// tickets are preferred, so that the sender of a listed ticket is right.
std::optional<SlotNumber> Seats::choose() {
  std::optional<SlotNumber> second_best;
  for (SlotNumber slot = 0; slot < kMaxSlots; ++slot) {
    if (seats_[slot].taken) continue;
    bool in_flight = false;
    if (memory_.slot(slot).life.load() != 0) {
      memory_.transit(slot).for_each_live(
          [&](std::uint32_t, const TicketGroup&, std::uint32_t) { in_flight = true; });
    }
    if (!in_flight) return slot;
    if (!second_best) second_best = slot;
  }
  return second_best;
}

std::optional<SlotNumber> Seats::take(ProcessIdentity process, std::int32_t parent, Fd pidfd,
                                      int line) {
  Seat seat;
  seat.process = process;
  seat.pidfd = std::move(pidfd);
  seat.line = line;
  return sit(std::move(seat), parent);
}

std::optional<SlotNumber> Seats::take_for_child(std::int32_t parent, int line) {
  Seat seat;
  seat.forking = true;
  seat.line = line;
  return sit(std::move(seat), parent);
}

std::optional<SlotNumber> Seats::sit(Seat seat, std::int32_t parent) {
  const std::optional<SlotNumber> slot = choose();
  if (!slot) return slot;
  // Reserves the first page of the slot's transit table, which is read to search for tickets.
  if (!reserve_pages(memory_.file(), SessionMemory::transit_offset(*slot), page_size())) {
    throw OutOfMemory("no memory for the tables of another process");
  }
  seat.taken = true;
  seat.life = seats_[*slot].life + 1;
  seat.since = coarse_milliseconds();
  SlotRecord& record = memory_.slot(*slot);
  record.life.store(seat.life);
  record.pid.store(seat.process.pid);
  record.start_time.store(seat.process.start_time);
  record.parent.store(parent);
  record.pid_namespace.store(namespace_);
  SHMTENSOR_FAULT_POINT("manager.seat");
  record.status.store(seat.forking ? SlotStatus::forking : SlotStatus::joining);
  remember_parent(parent);
  seats_[*slot] = std::move(seat);
  ++taken_;
  return slot;
}

void Seats::settle(SlotNumber slot, ProcessIdentity process, Fd pidfd) {
  Seat& seat = seats_[slot];
  seat.forking = false;
  seat.process = process;
  seat.pidfd = std::move(pidfd);
  SlotRecord& record = memory_.slot(slot);
  // The stored pid is valid in the namespace that is stored with it. The pid is stored last; until
  // then it is unknown.
  if (record.pid.load() == 0) {
    record.start_time.store(process.start_time);
    record.pid_namespace.store(namespace_);
    record.pid.store(process.pid);
  }
}

bool Seats::is_awaited(SlotNumber slot) const {
  const SlotStatus status = memory_.slot(slot).status.load();
  return status == SlotStatus::joining || status == SlotStatus::forking;
}

// Entering the slot and cancelling its reservation are one atomic step each, so only one of them
// succeeds.
bool Seats::shut(SlotNumber slot) {
  SlotStatus status = memory_.slot(slot).status.load();
  if (is_in(status)) return true;  // and has left
  return memory_.slot(slot).status.compare_exchange_strong(status, SlotStatus::unused);
}

void Seats::vacate(SlotNumber slot) {
  Seat& seat = seats_[slot];
  const std::uint32_t life = seat.life;
  seat = Seat{};
  seat.life = life;
  --taken_;
  memory_.slot(slot).status.store(SlotStatus::unused);
}

bool Seats::is_unknown(SlotNumber slot) const {
  const Seat& seat = seats_[slot];
  return seat.process.pid == 0 && !seat.pidfd && seat.line < 0 &&
         memory_.slot(slot).status.load() == SlotStatus::unlocked;
}

bool Seats::has_left(SlotNumber slot) {
  Seat& seat = seats_[slot];
  // A forked child whose parent asked an earlier manager writes its pid into the table.
  if (seat.forking && seat.line < 0 && memory_.slot(slot).pid.load() != 0) settle_by_table(slot);
  if (seat.pidfd && has_ended(seat.pidfd)) return true;
  if (memory_.slot(slot).status.load() == SlotStatus::active) {
    return !is_locked(memory_.file(), slot);
  }
  if (seat.process.pid != 0) return !seat.pidfd && !is_alive(seat.process);
  return is_awaited(slot) && seat.line < 0 &&
         coarse_milliseconds() - seat.since > kEntryMilliseconds;
}

void Seats::remember_parent(std::int32_t pid) {
  if (pid <= 0) return;
  const ProcessIdentity parent{pid, start_time_of(pid)};
  if (std::find(parents_.begin(), parents_.end(), parent) == parents_.end()) {
    parents_.push_back(parent);
  }
}

bool Seats::any_known() const {
  for (SlotNumber slot = 0; slot < kMaxSlots; ++slot) {
    if (seats_[slot].taken && !is_unknown(slot)) return true;
  }
  return false;
}

SlotSet Seats::unused() const noexcept {
  SlotSet unused;
  for (SlotNumber slot = 0; slot < kMaxSlots; ++slot) {
    if (!seats_[slot].taken) unused.add(slot);
  }
  return unused;
}

bool Seats::has_living_parent() {
  std::erase_if(parents_, [](const ProcessIdentity& parent) { return !is_alive(parent); });
  return !parents_.empty();
}

}  // namespace shmtensor
