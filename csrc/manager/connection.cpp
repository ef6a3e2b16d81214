#include "manager/connection.hpp"

#include <unistd.h>

#include <cerrno>
#include <span>
#include <thread>

#include "arena/segment.hpp"
#include "base/error.hpp"
#include "os/fault_point.hpp"
#include "os/process.hpp"
#include "os/same_user.hpp"
#include "os/unix_socket.hpp"

namespace shmtensor {
namespace {

std::span<const std::byte> bytes_of(const Message& message) {
  return std::as_bytes(std::span(&message, 1));
}

bool is_broken(int code) noexcept {
  return code == EPIPE || code == ECONNRESET || code == ENOTCONN;
}

void nap(int attempt) { std::this_thread::sleep_for(std::chrono::milliseconds(attempt)); }

[[noreturn]] void throw_not_ours(const SessionId& session, PeerUser user) {
  const std::string manager = "the manager of session " + session.hex();
  if (user == PeerUser::other) {
    throw SessionError(manager +
                       " belongs to another user; start another session by unsetting "
                       "SHMTENSOR_SESSION");
  }
  throw SessionError(manager + " may be another user's: " + kUnknownPeerAdvice);
}

}  // namespace

std::string manager_address(const SessionId& session) { return object_name(session); }

Connection::Connection(Fd socket) : socket_(std::move(socket)), identity_(socket_.identity()) {
  set_timeout(socket_, kTimeout);
}

Connection Connection::open(const SessionId& session, const std::string& program) {
  const std::string address = manager_address(session);
  PeerUser user = PeerUser::same;
  // A manager that is exiting may refuse or reset connections a few times.
  for (int attempt = 0; attempt < 50; ++attempt) {
    if (std::optional<Fd> socket = connect_abstract(address, kTimeout)) {
      user = user_of_peer(*socket);
      if (user == PeerUser::same) return Connection(std::move(*socket));
      // The process that started the manager has ended, and the manager does not listen yet.
      if (user != PeerUser::ended) throw_not_ours(session, user);
      nap(attempt);
      continue;
    }
    if (program.empty()) return {};
    // The listening socket is created here and inherited by the manager. So the next connect
    // succeeds before the program has started, and only one of several starters wins.
    if (const std::optional<Fd> listener = listen_abstract(address)) {
      launch_detached(program, {session.hex()}, *listener);
    } else {
      nap(attempt);
    }
  }
  if (user != PeerUser::same) throw_not_ours(session, user);
  throw SessionError("the manager of session " + session.hex() + " cannot be started: " + program +
                     " exits immediately; run it manually to see why");
}

std::optional<Reply> Connection::ask(const Message& request, int descriptor) {
  if (!socket_.still_is(identity_)) {
    close();
    return std::nullopt;
  }
  Reply reply;
  try {
    send_message(socket_, bytes_of(request),
                 descriptor >= 0 ? std::span(&descriptor, 1) : std::span<const int>());
    SHMTENSOR_FAULT_POINT("session.asked");
    std::optional<Received> received =
        receive_message(socket_, std::as_writable_bytes(std::span(&reply.message, 1)));
    if (!received || received->size == 0) {
      shut_down();
      return std::nullopt;
    }
    if (received->size != sizeof(Message) || reply.message.magic != kProtocolMagic ||
        reply.message.version != kProtocolVersion) {
      throw SessionError("the manager of session " + request.session.hex() +
                         " uses an incompatible protocol version; end the processes that use an "
                         "older shmtensor");
    }
    if (!received->fds.empty()) reply.fd = std::move(received->fds.front());
  } catch (const OsError& error) {
    shut_down();  // a late answer must not count as the answer to the next request
    if (is_broken(error.code())) return std::nullopt;
    if (error.code() == EAGAIN) {
      throw SessionError("the manager of session " + request.session.hex() +
                         " did not answer within " + std::to_string(kTimeout.count() / 1000) +
                         " seconds; if it is stopped, kill it; the next call starts a new one");
    }
    throw;
  }
  if (reply.message.kind == Kind::refused) {
    if (request.kind == Kind::hello) shut_down();
    throw SessionError("the manager of session " + request.session.hex() +
                       " refuses: " + std::string(reply.message.text.data()));
  }
  return reply;
}

bool Connection::tell(const Message& message, int descriptor) noexcept {
  if (!socket_.still_is(identity_)) return false;
  try {
    send_message(socket_, bytes_of(message),
                 descriptor >= 0 ? std::span(&descriptor, 1) : std::span<const int>(), Wait::never);
    return true;
  } catch (...) {
    return false;
  }
}

void Connection::shut_down() noexcept {
  if (socket_.still_is(identity_)) shmtensor::shut_down(socket_);
  close();
}

void Connection::close() noexcept {
  if (!socket_.still_is(identity_)) static_cast<void>(socket_.release());
  socket_.reset();
}

}  // namespace shmtensor
