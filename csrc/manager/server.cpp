#include "manager/server.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "manager/event_source.hpp"
#include "manager/manager_address.hpp"
#include "os/clock.hpp"
#include "os/shm_object.hpp"

namespace shmtensor {
namespace {

constexpr int kOrphanMilliseconds = 100;
constexpr int kIdleMilliseconds = 250;

}  // namespace

Server::Server(SessionId session, Fd listener)
    : session_(session),
      clients_(std::move(listener), poller_),
      empty_since_(coarse_milliseconds()) {}

Server::~Server() {
  if (memory_) memory_->header().manager.compare_exchange_strong(claimed_, 0);
  slots_.reset();
  memory_.reset();
  remove_manager_file(session_);  // before it closes: then no other process has replaced the file
  clients_.stop_listening();
}

void Server::run() {
  while (!finished()) {
    std::vector<std::uint64_t> all = poller_.wait(timeout());
    // Ended processes come first, so that one sweep is enough for all of them before requests are
    // answered.
    std::stable_partition(all.begin(), all.end(), [](std::uint64_t ready) {
      return source_of(ready) == EventSource::process;
    });
    for (const std::uint64_t ready : all) {
      const std::uint32_t value = value_of(ready);
      switch (source_of(ready)) {
        case EventSource::listener:
          clients_.accept_some();
          break;
        case EventSource::client:
          serve(static_cast<int>(value));
          break;
        case EventSource::process:
          check_slot(static_cast<SlotNumber>(value));
          break;
        case EventSource::queue:
          remove_queue(static_cast<int>(value));
          break;
      }
    }
    if (slots_) recheck_slots();
    sweep_dead();
    check_pipes();
    registry_.reclaim_orphans();
  }
  // The session may still be in use by processes that have no connection to this manager.
  if (!memory_ || slots_->taken() != 0) return;
  // Also removes names whose creator was killed before it registered them.
  for (const std::string& name : list_shm(object_name(session_) + "-")) unlink_shm(name);
}

int Server::timeout() {
  const int for_slots = timeout_for_slots();
  const std::optional<std::uint64_t> check = pipes_.next_check();
  if (!check || for_slots == 0) return for_slots;
  const std::uint64_t now = coarse_milliseconds();
  const int for_pipes = now < *check ? static_cast<int>(*check - now) : 0;
  return for_slots < 0 ? for_pipes : std::min(for_slots, for_pipes);
}

int Server::timeout_for_slots() {
  if (registry_.unfinished()) return 0;
  if (registry_.has_orphans()) return kOrphanMilliseconds;
  if (!slots_ || !slots_->any_known()) return kIdleMilliseconds;
  bool all_watched = true;
  bool all_connected = true;
  slots_->for_each_in_use([&](SlotNumber slot) {
    if (slots_->is_unknown(slot)) return;  // its end cannot be detected
    const SlotTable::Occupant& occupant = (*slots_)[slot];
    all_watched = all_watched && occupant.pidfd;
    all_connected = all_connected && occupant.connection >= 0;
  });
  if (!all_watched) return kIdleMilliseconds;
  if (all_connected && knows_all_arenas_) return -1;
  const std::uint64_t now = coarse_milliseconds();
  return now < recheck_at_ ? static_cast<int>(recheck_at_ - now) : 0;
}

bool Server::finished() {
  if (slots_ && slots_->any_known()) {
    empty_since_ = 0;
    return false;
  }
  const std::uint64_t now = coarse_milliseconds();
  if (empty_since_ == 0) empty_since_ = now;
  if (now - empty_since_ < static_cast<std::uint64_t>(kIdleTimeout.count())) return false;
  if (!memory_ || count_in_flight(*memory_) == 0) return true;
  return slots_->taken() == 0 && !slots_->has_living_parent();
}

}  // namespace shmtensor
