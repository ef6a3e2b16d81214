#include "manager/server.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "manager/event_source.hpp"
#include "manager/manager_address.hpp"
#include "manager/protocol.hpp"
#include "os/clock.hpp"

namespace shmtensor {
namespace {

constexpr int kOrphanMilliseconds = 100;
constexpr std::uint64_t kLongestWait = 3'600'000;

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
  bool only_connected = false;
  // A process that connects waits for the reply to its first request.
  while (only_connected || !finished()) {
    std::vector<std::uint64_t> all = poller_.wait(timeout());
    only_connected = !all.empty() && std::ranges::all_of(all, [](std::uint64_t ready) {
      return source_of(ready) == EventSource::listener;
    });
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
          requests_.serve(static_cast<int>(value));
          break;
        case EventSource::process:
          deaths_.check(static_cast<SlotNumber>(value));
          break;
        case EventSource::queue:
          queues_.remove(static_cast<int>(value));
          break;
      }
    }
    deaths_.recheck();
    deaths_.sweep();
    queues_.raise_hung_up();
    session_.arenas().reclaim_orphans();
  }
  // The session may still be in use by processes that have no connection to this manager.
  if (session_.exists() && session_.slots().taken() == 0) session_.remove_names();
}

int Server::timeout() {
  if (session_.arenas().unfinished()) return 0;
  // Without a process, no block is freed, and none can die.
  if (kept_for_) return static_cast<int>(std::min(*kept_for_, kLongestWait));
  return session_.arenas().has_orphans() ? kOrphanMilliseconds : deaths_.timeout();
}

bool Server::finished() {
  kept_for_.reset();
  const bool empty = !session_.exists() || !session_.slots().any_known();
  const std::uint64_t now = coarse_milliseconds();
  if (!empty || empty_since_ == 0) {
    empty_since_ = empty ? now : 0;
    session_.note_empty(empty_since_);
  }
  if (!empty || now - empty_since_ < static_cast<std::uint64_t>(kIdleTimeout.count())) return false;
  if (!session_.may_end()) return false;
  kept_for_ = session_.keep_names(now - empty_since_);
  return !kept_for_;
}

}  // namespace shmtensor
