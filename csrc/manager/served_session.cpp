#include "manager/served_session.hpp"

#include <string>
#include <utility>
#include <vector>

#include "base/atomic.hpp"
#include "base/error.hpp"
#include "base/report.hpp"
#include "manager/kept_names.hpp"
#include "manager/recovery.hpp"
#include "manager/session_statistics.hpp"
#include "os/fault_point.hpp"
#include "os/shm_object.hpp"

namespace shmtensor {
namespace {

constexpr std::uint64_t kRetryMilliseconds = 1'000;

}  // namespace

void ServedSession::find_or_start(Join join, Fd memory) {
  if (memory) return adopt(SessionMemory::open(id_, std::move(memory)));
  if (auto recovered = recover_session(id_)) return adopt(std::move(recovered));
  if (join != Join::create) return;
  const TakeFile empty = [this](Fd file) { arenas_.empty(std::move(file)); };
  sweep_names(false, empty);
  // `sweep_names` considers the session alive, since this manager serves it.
  remove_names_of(id_, empty);
  assume(SessionMemory::create(id_));
}

void ServedSession::assume(std::unique_ptr<SessionMemory> memory) {
  if (memory->has_manager()) throw_lives_elsewhere();
  memory->claim_manager();
  claimed_ = memory->header().manager.load();
  memory_ = std::move(memory);
  slots_ = std::make_unique<SlotTable>(*memory_);
}

void ServedSession::adopt(std::unique_ptr<SessionMemory> memory) {
  assume(std::move(memory));
  slots_->take_over();
  SHMTENSOR_FAULT_POINT("manager.adopt");
  find_arenas();
  memory_->header().deaths.fetch_add(1);
  arenas_.notify_owners();
}

void ServedSession::release_memory() noexcept {
  if (memory_) memory_->header().manager.compare_exchange_strong(claimed_, 0);
  slots_.reset();
  memory_.reset();
}

void ServedSession::remove_names() const {
  for (const std::string& name : list_shm(object_name(id_) + "-")) unlink_shm(name);
}

void ServedSession::add_arena(std::unique_ptr<Segment> segment) {
  const bool lives = owner_of(*segment) != nullptr;
  arenas_.add(std::move(segment), lives, *memory_, slots_->unused());
}

void ServedSession::find_arenas() {
  FoundArenas found = recover_arenas(id_);
  std::vector<ArenaRegistry::Found> arenas;
  for (auto& segment : found.segments) {
    const bool lives = owner_of(*segment) != nullptr;
    arenas.push_back({std::move(segment), lives});
  }
  arenas_.add(std::move(arenas), *memory_, slots_->unused());
  knows_all_arenas_ = found.all;
}

const SlotTable::Occupant* ServedSession::owner_of(const Segment& segment) const {
  const ArenaHeader& header = segment.header();
  const SlotTable::Occupant& owner = (*slots_)[static_cast<SlotNumber>(header.owner)];
  return owner.taken && owner.incarnation == header.owner_incarnation ? &owner : nullptr;
}

// For members that could not map a ticket table, or whose connection was full. A process that fails
// to check a block after this clears the mark marks its slot again.
bool ServedSession::try_postponed_frees() {
  if (!slots_) return false;
  bool any = false;
  slots_->for_each_in_use([&](SlotNumber slot) {
    Atomic<std::uint32_t>& postponed = memory_->slot(slot).frees_postponed;
    if (postponed.load() == 0) return;
    postponed.store(0);
    any = true;
  });
  if (any) arenas_.sweep(*memory_, {});
  return any;
}

bool ServedSession::may_end() const {
  if (!memory_ || count_in_flight(*memory_) == 0) return true;
  return slots_->taken() == 0 && !slots_->has_living_parent();
}

void ServedSession::note_empty(std::uint64_t since) const noexcept {
  if (memory_) memory_->header().empty_since.store(since);
}

std::optional<std::uint64_t> ServedSession::keep_names(std::uint64_t idle) {
  if (!memory_) return std::nullopt;
  try {
    const KeptNames kept = KeptNames::of(*memory_, idle);
    // A process whose end cannot be detected may use what is not kept.
    if (kept.left && slots_->taken() == 0) {
      arenas_.cancel_all_but(*memory_, kept.marks);
      kept.remove_others(*memory_);
    }
    return kept.left;
  } catch (const Error& error) {
    report(std::string("cannot look for kept names, and tries again: ") + error.what());
    return kRetryMilliseconds;
  }
}

}  // namespace shmtensor
