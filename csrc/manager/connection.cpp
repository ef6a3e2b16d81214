#include "manager/connection.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>
#include <thread>

#include "base/atomic.hpp"
#include "base/error.hpp"
#include "manager/manager_address.hpp"
#include "os/clock.hpp"
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
    throw ForeignSession(manager +
                         " belongs to another user; start another session by unsetting "
                         "SHMTENSOR_SESSION");
  }
  throw ForeignSession(manager + " may be another user's: " + kUnknownPeerAdvice);
}

[[noreturn]] void throw_incompatible(const SessionId& session) {
  throw SessionError("the manager of session " + session.hex() +
                     " uses an incompatible protocol version; end the processes that use another "
                     "version of shmtensor");
}

// The manager that did not answer last; it is stopped, or hangs. For a while the calls of other
// threads, which wait for one another, and forks, during which every thread waits, do not wait as
// long for it again. Another manager has another pid, and is given all of its time.
class Silence {
 public:
  [[nodiscard]] bool is_of(pid_t manager) const noexcept {
    return manager != 0 && manager == manager_.load() && coarse_milliseconds() < until_.load();
  }
  void begin(pid_t manager) noexcept {
    until_.store(coarse_milliseconds() + static_cast<std::uint64_t>(kTimeout.count()));
    manager_.store(manager);
  }
  void end(pid_t manager) noexcept { manager_.compare_exchange_strong(manager, 0); }

 private:
  Atomic<pid_t> manager_{0};
  Atomic<std::uint64_t> until_{0};
};

// The managers that this process has met. Those that are its children are kept until they end.
// Without a lock, since another thread may fork at any time.
class Managers {
 public:
  void add(pid_t pid) noexcept {
    const std::uint64_t start = start_time_of(pid);
    if (start == 0) return;  // of another PID namespace
    for (const Entry& entry : met_) {
      if (entry.pid.load() == pid && entry.start_time.load() == start) return;
    }
    for (Entry& entry : met_) {
      pid_t none = 0;
      if (!entry.pid.compare_exchange_strong(none, kReserved)) continue;
      entry.start_time.store(start);
      entry.pid.store(pid);
      return;
    }
  }
  void reap() {
    for (Entry& entry : met_) {
      pid_t pid = entry.pid.load();
      if (pid <= 0 || is_running_child({pid, entry.start_time.load()})) continue;
      entry.pid.compare_exchange_strong(pid, 0);
    }
  }

 private:
  static constexpr pid_t kReserved = -1;
  struct Entry {
    Atomic<pid_t> pid{0};
    Atomic<std::uint64_t> start_time{0};
  };
  std::array<Entry, 16> met_;
};

Managers managers;
Silence silence;

}  // namespace

void reap_managers() { managers.reap(); }

Connection::Connection(Fd socket) : socket_(std::move(socket)), identity_(socket_.identity()) {
  set_timeout(socket_, kTimeout);
  ask_for_sender(socket_);
}

Connection Connection::open(const SessionId& session, const std::string& program) {
  reap_managers();
  const std::string address = manager_address(session);
  PeerUser user = PeerUser::same;
  // A manager that is exiting may refuse or reset connections a few times.
  for (int attempt = 0; attempt < 50; ++attempt) {
    if (std::optional<Fd> socket = connect_to(address, kTimeout)) {
      user = user_of_peer(*socket);
      if (user == PeerUser::same) {
        const pid_t manager = peer_credentials(*socket).pid;
        Connection connection(std::move(*socket));
        connection.manager_ = manager;  // or the process that started it; its answers show which
        return connection;
      }
      // The process that started the manager has ended, and the manager does not listen yet.
      if (user != PeerUser::ended) throw_not_ours(session, user);
      nap(attempt);
      continue;
    }
    if (program.empty()) return {};
    // The listening socket is created here and inherited by the manager. So the next connect
    // succeeds before the program has started, and only one of several starters wins.
    if (const std::optional<Fd> listener = listen_as_manager(session)) {
      const SocketDirectory* directory = runtime_directory();
      try {
        launch_detached(program, {session.hex(), directory != nullptr ? directory->path() : ""},
                        *listener);
      } catch (const OsError& error) {
        if (error.code() != ENOENT) throw;
        throw OsError(
            ENOENT,
            error.what() + std::string("; it is a part of the package: install that again, or "
                                       "freeze the program with its hook for PyInstaller"));
      }
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
  std::optional<Reply> reply;
  try {
    reply = exchange(request, descriptor);
  } catch (const OsError& error) {
    shut_down();  // a late answer must not count as the answer to the next request
    if (is_broken(error.code())) return std::nullopt;
    if (error.code() == EMSGSIZE) throw_incompatible(request.session);
    if (error.code() == EAGAIN) {
      if (timeout_ == kTimeout) silence.begin(manager_);
      throw SessionError("the manager of session " + request.session.hex() +
                         " did not answer within " + std::to_string(kTimeout.count() / 1000) +
                         " seconds; if it is stopped, kill it; the next call starts a new one");
    }
    throw;
  }
  if (!reply) {
    shut_down();
    return std::nullopt;
  }
  silence.end(manager_);
  if (reply->message.kind == MessageKind::refused) {
    if (request.kind == MessageKind::hello) shut_down();
    throw SessionError("the manager of session " + request.session.hex() +
                       " refuses: " + reply->message.get_text());
  }
  if (reply->message.kind == MessageKind::welcome) managers.add(manager_);
  return reply;
}

std::optional<Reply> Connection::exchange(const Message& request, int descriptor) {
  const auto timeout = silence.is_of(manager_) ? kShortTimeout : kTimeout;
  if (timeout != timeout_) set_timeout(socket_, timeout_ = timeout);
  Reply reply;
  send_message(socket_, bytes_of(request),
               descriptor >= 0 ? std::span(&descriptor, 1) : std::span<const int>());
  SHMTENSOR_FAULT_POINT("session.asked");
  std::optional<Received> received =
      receive_message(socket_, std::as_writable_bytes(std::span(&reply.message, 1)));
  if (!received || received->size == 0) return std::nullopt;
  manager_ = received->sender;
  if (!received->fds.empty()) reply.fd = std::move(received->fds.front());
  const Message& answer = reply.message;
  if (received->size != sizeof(Message) || answer.magic != kProtocolMagic ||
      answer.version != kProtocolVersion || (answer.kind == MessageKind::welcome && !reply.fd)) {
    shut_down();
    throw_incompatible(request.session);
  }
  return reply;
}

bool Connection::notify(const Message& message, int descriptor) noexcept {
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
