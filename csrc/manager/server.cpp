#include "manager/server.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "manager/event_source.hpp"
#include "manager/manager_address.hpp"
#include "os/clock.hpp"

namespace shmtensor {
namespace {

constexpr int kOrphanMilliseconds = 100;
constexpr int kIdleMilliseconds = 250;

}  // namespace

Server::Server(SessionId session, Fd listener)
    : clients_(std::move(listener), poller_),
      session_(session),
      empty_since_(coarse_milliseconds()) {}

Server::~Server() {
  session_.release_memory();
  // Before the socket closes: then no other process has replaced the file.
  remove_manager_file(session_.id());
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
          queues_.remove(static_cast<int>(value));
          break;
      }
    }
    if (session_.exists()) recheck_slots();
    sweep_dead();
    pipes_.check();
    session_.arenas().reclaim_orphans();
  }
  // The session may still be in use by processes that have no connection to this manager.
  if (session_.exists() && session_.slots().taken() == 0) session_.remove_names();
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
  if (session_.arenas().unfinished()) return 0;
  if (session_.arenas().has_orphans()) return kOrphanMilliseconds;
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

bool Server::finished() {
  if (session_.exists() && session_.slots().any_known()) {
    empty_since_ = 0;
    return false;
  }
  const std::uint64_t now = coarse_milliseconds();
  if (empty_since_ == 0) empty_since_ = now;
  if (now - empty_since_ < static_cast<std::uint64_t>(kIdleTimeout.count())) return false;
  return session_.may_end();
}

}  // namespace shmtensor
