#include "os/unix_socket.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "os/clock.hpp"

#if !defined(SO_PEERPIDFD)
#define SO_PEERPIDFD 77
#endif

namespace shmtensor {
namespace {

struct Address {
  sockaddr_un value{};
  socklen_t size = 0;
};

// An abstract name begins, a path ends, with a null character.
Address address_named(const std::string& name) {
  Address address;
  address.value.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address.value.sun_path) {
    throw_os("name the socket " + name, ENAMETOOLONG);
  }
  const std::size_t first = name.starts_with('/') ? 0 : 1;
  std::memcpy(address.value.sun_path + first, name.data(), name.size());
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

std::string printed(const std::string& name) { return name.starts_with('/') ? name : '@' + name; }

Fd new_socket() {
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) throw_os("open a Unix socket");
  return Fd(fd);
}

void make_non_blocking(const Fd& socket) {
  if (::fcntl(socket.get(), F_SETFL, O_NONBLOCK) != 0) throw_os("set up a Unix socket");
}

int flag_of(Wait wait) noexcept { return wait == Wait::never ? MSG_DONTWAIT : 0; }

bool may_wait(const Fd& socket, Wait wait) noexcept {
  return wait != Wait::never && (::fcntl(socket.get(), F_GETFL) & O_NONBLOCK) == 0;
}

// The timeout is divided into this many waits in the kernel, and not measured by a clock. A process
// that is stopped, or whose machine is suspended, uses up one wait, and afterwards receives the
// messages that arrived in that time.
constexpr int kWaits = 10;

std::uint64_t milliseconds_of_a_wait(const Fd& socket) noexcept {
  timeval value{};
  socklen_t size = sizeof value;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &value, &size);
  return static_cast<std::uint64_t>(value.tv_sec) * 1000 +
         static_cast<std::uint64_t>(value.tv_usec) / 1000;
}

// If a signal interrupted the call, the kernel would begin the wait again, and an interval timer
// would make it endless.
template <typename Call>
auto with_timeout(const Fd& socket, Wait wait, Call&& call) {
  std::uint64_t begin = coarse_milliseconds();
  auto result = call();
  if (result >= 0 || (errno != EINTR && errno != EAGAIN)) return result;
  if (errno == EAGAIN && !may_wait(socket, wait)) return result;
  const std::uint64_t limit = milliseconds_of_a_wait(socket);
  for (int waits = 0; result < 0 && (errno == EINTR || errno == EAGAIN); result = call()) {
    const std::uint64_t now = coarse_milliseconds();
    if (errno == EINTR && (limit == 0 || now - begin < limit)) continue;
    if (++waits == kWaits) {
      errno = EAGAIN;
      break;
    }
    begin = now;
  }
  return result;
}

// Takes ownership of the descriptors of every SCM_RIGHTS record, whatever other records the message
// has.
void take_ancillary(msghdr& message, Received& received) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET) continue;
    if (c->cmsg_type == SCM_RIGHTS) {
      const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
        received.fds.emplace_back(fd);
      }
    } else if (c->cmsg_type == SCM_CREDENTIALS) {
      ucred credentials{};
      std::memcpy(&credentials, CMSG_DATA(c), sizeof credentials);
      received.sender = credentials.pid;
    }
  }
}

}  // namespace

std::optional<Fd> bind_to(const std::string& name) {
  Fd socket = new_socket();
  const Address address = address_named(name);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address.value), address.size) != 0) {
    if (errno == EADDRINUSE) return std::nullopt;
    throw_os("bind the socket " + printed(name));
  }
  return socket;
}

std::optional<Fd> listen_on(const std::string& name) {
  std::optional<Fd> socket = bind_to(name);
  if (socket && ::listen(socket->get(), SOMAXCONN) != 0) {
    throw_os("listen on the socket " + printed(name));
  }
  return socket;
}

void listen_as_this_process(const Fd& socket) {
  if (::listen(socket.get(), SOMAXCONN) != 0) throw_os("listen on an inherited socket");
}

std::optional<Fd> connect_to(const std::string& name, std::chrono::milliseconds timeout) {
  Fd socket = new_socket();
  set_timeout(socket, timeout);
  const Address address = address_named(name);
  const auto connect = [&] {
    return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.value), address.size);
  };
  if (with_timeout(socket, Wait::as_the_socket_is_set, connect) != 0) {
    if (errno == ECONNREFUSED || errno == ENOENT) return std::nullopt;
    throw_os("connect to the socket " + printed(name));
  }
  return socket;
}

bool is_listening(const std::string& name) {
  const Fd socket = new_socket();
  make_non_blocking(socket);
  const Address address = address_named(name);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.value), address.size) ==
      0) {
    return true;
  }
  if (errno == ECONNREFUSED || errno == ENOENT) return false;
  if (errno == EAGAIN) return true;  // too many connections wait for it
  throw_os("connect to the socket " + printed(name));
}

Fd accept_connection(const Fd& listener) {
  return Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

std::pair<Fd, Fd> socket_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw_os("create a socket pair");
  }
  std::pair<Fd, Fd> pair{Fd(ends[0]), Fd(ends[1])};
  make_non_blocking(pair.first);
  return pair;
}

void set_timeout(const Fd& socket, std::chrono::milliseconds timeout) {
  const std::int64_t each = std::chrono::microseconds(timeout).count() / kWaits;
  const timeval value{static_cast<time_t>(each / 1'000'000),
                      static_cast<suseconds_t>(each % 1'000'000)};
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    if (::setsockopt(socket.get(), SOL_SOCKET, option, &value, sizeof value) != 0) {
      throw_os("set the timeout of a Unix socket");
    }
  }
}

void shut_down(const Fd& socket) noexcept { ::shutdown(socket.get(), SHUT_RDWR); }

void ask_for_sender(const Fd& socket) {
  const int on = 1;
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) {
    throw_os("enable the passing of credentials on a Unix socket");
  }
}

void send_message(const Fd& socket, std::span<const std::byte> bytes, std::span<const int> fds,
                  Wait wait) {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kMaxFdsPerMessage * sizeof(int))> control{};
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  const int flags = MSG_NOSIGNAL | flag_of(wait);
  if (with_timeout(socket, wait, [&] { return ::sendmsg(socket.get(), &message, flags); }) < 0) {
    if (errno == ETOOMANYREFS) {
      throw_os(
          "send descriptors (too many descriptors of this user are in flight; raise "
          "RLIMIT_NOFILE)");
    }
    throw_os("send a message");
  }
}

std::optional<Received> receive_message(const Fd& socket, std::span<std::byte> buffer, Wait wait) {
  alignas(cmsghdr)
      std::array<std::byte, CMSG_SPACE(kMaxFdsPerMessage * sizeof(int)) + CMSG_SPACE(sizeof(ucred))>
          control{};
  iovec part{buffer.data(), buffer.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const int flags = MSG_CMSG_CLOEXEC | flag_of(wait);
  const ssize_t size =
      with_timeout(socket, wait, [&] { return ::recvmsg(socket.get(), &message, flags); });
  if (size < 0) {
    if (errno == EAGAIN && !may_wait(socket, wait)) return std::nullopt;
    throw_os("receive a message");
  }
  Received received;
  received.size = static_cast<std::size_t>(size);
  take_ancillary(message, received);
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    throw_os("receive descriptors (this process may not open more; raise RLIMIT_NOFILE)", EMFILE);
  }
  if ((message.msg_flags & MSG_TRUNC) != 0) throw_os("receive a message", EMSGSIZE);
  return received;
}

PeerCredentials peer_credentials(const Fd& socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    throw_os("get the peer credentials of a Unix socket");
  }
  return {credentials.pid, credentials.uid};
}

Fd peer_pidfd(const Fd& socket) noexcept {
  int fd = -1;
  socklen_t size = sizeof fd;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0 ? Fd(fd) : Fd();
}

}  // namespace shmtensor
