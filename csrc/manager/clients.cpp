#include "manager/clients.hpp"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "base/error.hpp"
#include "manager/event_source.hpp"
#include "os/same_user.hpp"
#include "os/unix_socket.hpp"

namespace shmtensor {
namespace {

constexpr int kConnectionsAtOnce = 64;

}  // namespace

Clients::Clients(Fd listener, Poller& poller)
    : poller_(poller), listener_(std::move(listener)), spare_(listener_.duplicate()) {
  listen_as_this_process(listener_);
  poller_.add(listener_, tag(EventSource::listener, 0));
}

void Clients::accept_some() {
  for (int i = 0; i < kConnectionsAtOnce; ++i) {
    Fd socket = accept_connection(listener_);
    if (!socket && !reject()) return;
    if (!socket || full()) continue;
    try {
      if (user_of_peer(socket) == PeerUser::same) add(std::move(socket));
    } catch (const Error&) {
      // The connection cannot be watched, so it is closed.
    }
  }
}

Client& Clients::add(Fd socket) {
  const int descriptor = socket.get();
  poller_.add(socket, tag(EventSource::client, static_cast<std::uint32_t>(descriptor)));
  Client& client = clients_[descriptor];
  client = {std::move(socket), kNoSlot};
  return client;
}

Client* Clients::find(int descriptor) noexcept {
  const auto at = clients_.find(descriptor);
  return at == clients_.end() ? nullptr : &at->second;
}

bool Clients::reject() {
  if ((errno != EMFILE && errno != ENFILE) || !spare_) return false;
  spare_.reset();
  static_cast<void>(accept_connection(listener_));
  spare_ = Fd(::fcntl(listener_.get(), F_DUPFD_CLOEXEC, 0));
  return true;
}

void Clients::close(int descriptor) noexcept {
  const auto at = clients_.find(descriptor);
  if (at == clients_.end()) return;
  poller_.remove(at->second.socket);
  clients_.erase(at);
}

}  // namespace shmtensor
