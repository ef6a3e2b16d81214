#include "manager/slot_table.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "os/clock.hpp"
#include "os/fault_point.hpp"
#include "os/mapping.hpp"
#include "os/page_reservation.hpp"
#include "os/process_lock.hpp"

namespace shmtensor {
namespace {

// How long a slot is reserved for a process that has no connection and has not entered. The process
// was killed, or its fork failed, while no manager ran. If it enters later, the reservation is
// cancelled, and it requests another slot.
constexpr std::uint64_t kEntryMilliseconds = 5'000;

}  // namespace

void SlotTable::take_over() {
  for (SlotNumber slot = 0; slot < kMaxSlots; ++slot) {
    SlotRecord& record = memory_.slot(slot);
    Occupant& occupant = occupants_[slot];
    occupant.incarnation = record.incarnation.load();
    if (occupant.incarnation != 0) remember_parent(record.parent.load());
    const SlotStatus status = record.status.load();
    if (status == SlotStatus::unused || status > SlotStatus::unlocked) continue;
    occupant.taken = true;
    ++taken_;
    occupant.since = coarse_milliseconds();
    occupant.registered = false;
    occupant.forking = status == SlotStatus::forking && record.pid.load() == 0;
    if (!occupant.forking) identify_by_table(slot);
  }
}

// A pid is valid only in the namespace of the process that wrote it: an earlier manager, or a
// forked child.
void SlotTable::identify_by_table(SlotNumber slot) {
  Occupant& occupant = occupants_[slot];
  const SlotRecord& record = memory_.slot(slot);
  const ProcessIdentity process{record.pid.load(), record.start_time.load()};
  occupant.forking = false;
  if (process.pid == 0 || namespace_ == 0 || record.pid_namespace.load() != namespace_) return;
  occupant.process = process;
  occupant.pidfd = open_pidfd(process);
  occupant.registered = true;  // by /proc, where this manager finds its arenas
}

// Returns the lowest free slot, so that few planes of holder bits are in use. Slots without live
// tickets are preferred, so that the sender of a listed ticket is right.
std::optional<SlotNumber> SlotTable::choose() {
  std::optional<SlotNumber> second_best;
  for (SlotNumber slot = 0; slot < kMaxSlots; ++slot) {
    if (occupants_[slot].taken) continue;
    if (!has_unread(slot)) return slot;
    if (!second_best) second_best = slot;
  }
  return second_best;
}

bool SlotTable::has_unread(SlotNumber slot) const {
  return memory_.slot(slot).incarnation.load() != 0 && memory_.transit(slot).any_live();
}

std::optional<SlotNumber> SlotTable::assign(ProcessIdentity process, std::int32_t parent, Fd pidfd,
                                            int connection) {
  Occupant occupant;
  occupant.process = process;
  occupant.pidfd = std::move(pidfd);
  occupant.connection = connection;
  return occupy(std::move(occupant), parent);
}

std::optional<SlotNumber> SlotTable::assign_to_child(std::int32_t parent, int connection) {
  Occupant occupant;
  occupant.forking = true;
  occupant.connection = connection;
  return occupy(std::move(occupant), parent);
}

std::optional<SlotNumber> SlotTable::occupy(Occupant occupant, std::int32_t parent) {
  const std::optional<SlotNumber> slot = choose();
  if (!slot) return slot;
  // Reserves the first page of the slot's transit table, which is read to search for tickets.
  if (!reserve_pages(memory_.file(), SessionMemory::transit_offset(*slot), page_size())) {
    throw OutOfMemory("no memory for the tables of another process");
  }
  occupant.taken = true;
  occupant.incarnation = occupants_[*slot].incarnation + 1;
  occupant.since = coarse_milliseconds();
  SlotRecord& record = memory_.slot(*slot);
  record.incarnation.store(occupant.incarnation);
  record.pid.store(occupant.process.pid);
  record.start_time.store(occupant.process.start_time);
  record.parent.store(parent);
  record.pid_namespace.store(namespace_);
  record.busy_since.store(0);
  SHMTENSOR_FAULT_POINT("manager.assign_slot");
  record.status.store(occupant.forking ? SlotStatus::forking : SlotStatus::joining);
  remember_parent(parent);
  occupants_[*slot] = std::move(occupant);
  ++taken_;
  return slot;
}

void SlotTable::identify(SlotNumber slot, ProcessIdentity process, Fd pidfd) {
  Occupant& occupant = occupants_[slot];
  occupant.forking = false;
  occupant.process = process;
  occupant.pidfd = std::move(pidfd);
  SlotRecord& record = memory_.slot(slot);
  // The stored pid is valid in the namespace that is stored with it. The pid is stored last; until
  // then it is unknown.
  if (record.pid.load() == 0) {
    record.start_time.store(process.start_time);
    record.pid_namespace.store(namespace_);
    record.pid.store(process.pid);
  }
}

bool SlotTable::is_awaited(SlotNumber slot) const {
  const SlotStatus status = memory_.slot(slot).status.load();
  return status == SlotStatus::joining || status == SlotStatus::forking;
}

// Entering the slot and cancelling its reservation are one atomic step each, so only one of them
// succeeds.
bool SlotTable::withdraw(SlotNumber slot) {
  SlotStatus status = memory_.slot(slot).status.load();
  if (is_in(status)) return true;  // and has left
  return memory_.slot(slot).status.compare_exchange_strong(status, SlotStatus::unused);
}

void SlotTable::release(SlotNumber slot) {
  Occupant& occupant = occupants_[slot];
  const std::uint32_t incarnation = occupant.incarnation;
  occupant = Occupant{};
  occupant.incarnation = incarnation;
  --taken_;
  memory_.slot(slot).status.store(SlotStatus::unused);
}

bool SlotTable::is_unknown(SlotNumber slot) const {
  const Occupant& occupant = occupants_[slot];
  return occupant.process.pid == 0 && !occupant.pidfd && occupant.connection < 0 &&
         memory_.slot(slot).status.load() == SlotStatus::unlocked;
}

bool SlotTable::has_left(SlotNumber slot) {
  Occupant& occupant = occupants_[slot];
  // A forked child whose parent asked an earlier manager writes its pid into the table.
  if (occupant.forking && occupant.connection < 0 && memory_.slot(slot).pid.load() != 0)
    identify_by_table(slot);
  if (occupant.pidfd && has_ended(occupant.pidfd)) return true;
  if (memory_.slot(slot).status.load() == SlotStatus::active) {
    return !is_locked(memory_.file(), slot);
  }
  if (occupant.process.pid != 0) return !occupant.pidfd && !is_alive(occupant.process);
  return is_awaited(slot) && occupant.connection < 0 &&
         coarse_milliseconds() - occupant.since > kEntryMilliseconds;
}

void SlotTable::remember_parent(std::int32_t pid) {
  if (pid <= 0) return;
  const ProcessIdentity parent{pid, start_time_of(pid)};
  if (std::find(parents_.begin(), parents_.end(), parent) == parents_.end()) {
    parents_.push_back(parent);
  }
}

bool SlotTable::all_registered() const noexcept {
  return std::ranges::none_of(
      occupants_, [](const Occupant& occupant) { return occupant.taken && !occupant.registered; });
}

bool SlotTable::any_known() const {
  for (SlotNumber slot = 0; slot < kMaxSlots; ++slot) {
    if (occupants_[slot].taken && !is_unknown(slot)) return true;
  }
  return false;
}

SlotSet SlotTable::unused() const noexcept {
  SlotSet unused;
  for (SlotNumber slot = 0; slot < kMaxSlots; ++slot) {
    if (!occupants_[slot].taken) unused.add(slot);
  }
  return unused;
}

bool SlotTable::has_living_parent() {
  std::erase_if(parents_, [](const ProcessIdentity& parent) { return !is_alive(parent); });
  return !parents_.empty();
}

}  // namespace shmtensor
