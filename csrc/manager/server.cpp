// The manager's event loop, and its connections.
#include "manager/server.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "manager/manager_address.hpp"
#include "os/clock.hpp"
#include "os/same_user.hpp"
#include "os/shm_object.hpp"
#include "os/unix_socket.hpp"

namespace shmtensor {
namespace {

constexpr int kConnectionsAtOnce = 64;
constexpr int kOrphanMilliseconds = 100;
constexpr int kIdleMilliseconds = 250;

}  // namespace

Server::Server(SessionId session, Fd listener)
    : session_(session),
      listener_(std::move(listener)),
      spare_(listener_.duplicate()),
      empty_since_(coarse_milliseconds()) {
  listen_as_this_process(listener_);
  poller_.add(listener_, tag(kListener, 0));
}

Server::~Server() {
  if (memory_) memory_->header().manager.compare_exchange_strong(claimed_, 0);
  slots_.reset();
  memory_.reset();
  remove_manager_file(session_);  // before it closes: then no other process has replaced the file
  listener_.reset();
}

void Server::run() {
  while (!finished()) {
    std::vector<std::uint64_t> all = poller_.wait(timeout());
    // Ended processes come first, so that one sweep is enough for all of them before requests are
    // answered.
    std::stable_partition(all.begin(), all.end(),
                          [](std::uint64_t ready) { return ready >> 32 == kProcess; });
    for (const std::uint64_t ready : all) {
      const auto value = static_cast<std::uint32_t>(ready);
      switch (ready >> 32) {
        case kListener:
          accept_some();
          break;
        case kClient:
          serve(static_cast<int>(value));
          break;
        case kQueue:
          remove_queue(static_cast<int>(value));
          break;
        default:
          check_slot(static_cast<SlotNumber>(value));
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

void Server::accept_some() {
  for (int i = 0; i < kConnectionsAtOnce; ++i) {
    Fd socket = accept_connection(listener_);
    if (!socket && !reject_connection()) return;
    if (!socket || clients_.size() >= kMaxClients) continue;
    try {
      if (user_of_peer(socket) == PeerUser::same) add_client(std::move(socket));
    } catch (const Error&) {
      // The connection cannot be watched, so it is closed.
    }
  }
}

int Server::add_client(Fd socket) {
  const int descriptor = socket.get();
  poller_.add(socket, tag(kClient, static_cast<std::uint32_t>(descriptor)));
  clients_[descriptor] = {std::move(socket), kNoSlot};
  return descriptor;
}

bool Server::reject_connection() {
  if ((errno != EMFILE && errno != ENFILE) || !spare_) return false;
  spare_.reset();
  static_cast<void>(accept_connection(listener_));
  spare_ = Fd(::fcntl(listener_.get(), F_DUPFD_CLOEXEC, 0));
  return true;
}

void Server::close_client(int descriptor) noexcept {
  const auto at = clients_.find(descriptor);
  if (at == clients_.end()) return;
  poller_.remove(at->second.socket);
  clients_.erase(at);
}

}  // namespace shmtensor
