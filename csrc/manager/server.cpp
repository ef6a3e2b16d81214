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
    pipes_.check();
    session_.arenas().reclaim_orphans();
  }
  // The session may still be in use by processes that have no connection to this manager.
  if (session_.exists() && session_.slots().taken() == 0) session_.remove_names();
}

int Server::timeout() {
  if (session_.arenas().unfinished()) return 0;
  const int others = session_.arenas().has_orphans() ? kOrphanMilliseconds : deaths_.timeout();
  const std::optional<std::uint64_t> check = pipes_.next_check();
  if (!check || others == 0) return others;
  const std::uint64_t now = coarse_milliseconds();
  const int for_pipes = now < *check ? static_cast<int>(*check - now) : 0;
  return others < 0 ? for_pipes : std::min(others, for_pipes);
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
