// Local message sockets that carry descriptors: SOCK_SEQPACKET over abstract names, which leave
// nothing in any file system.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "os/fd.hpp"

namespace shmtensor {

/// What a receive brought. `size` 0 means that the other side closed.
struct Received {
  std::size_t size = 0;
  std::vector<Fd> fds;
  pid_t sender = 0;  ///< set only where `ask_for_sender` was called
};

/// The longest list of descriptors one message may carry here (the kernel's limit is 253).
inline constexpr std::size_t kMaxFdsPerMessage = 8;

/// Takes an abstract name: while the socket is open nobody else can listen there. Nothing when
/// somebody has it already.
[[nodiscard]] std::optional<Fd> bind_abstract(const std::string& name);

/// Binds and listens on an abstract name. Nothing when somebody listens there already.
[[nodiscard]] std::optional<Fd> listen_abstract(const std::string& name);

/// Listens on a socket that an earlier process bound: a process that connects from now on
/// finds the credentials of this one. Throws OsError.
void listen_as_this_process(const Fd& socket);

/// Connects to an abstract name. Nothing when nobody listens there. Waits at most `patience` in
/// this call and in each later receive and send on the socket.
[[nodiscard]] std::optional<Fd> connect_abstract(const std::string& name,
                                                 std::chrono::milliseconds patience);

/// Accepts a waiting connection, non-blocking; an empty Fd when there is none or, as errno says, no
/// descriptor is left.
[[nodiscard]] Fd accept_connection(const Fd& listener);

/// A connected pair; the first end is non-blocking.
[[nodiscard]] std::pair<Fd, Fd> socket_pair();

/// How long a receive or send on the socket may wait, not counting what this process was stopped.
void set_patience(const Fd& socket, std::chrono::milliseconds patience);

/// Ends the connection for everybody who has the socket open.
void shut_down(const Fd& socket) noexcept;

/// Every receive on the socket tells who sent the message, as the kernel knows it.
void ask_for_sender(const Fd& socket);

/// Whether a call may wait. That a socket does not block belongs to the open file, which the other
/// side of a socket pair may have, too; it can take that back at any time.
enum class Wait { as_the_socket_is_set, never };

/// Sends one message whole. Throws OsError; EPIPE when the other side is gone, EAGAIN when it would
/// have to wait.
void send_message(const Fd& socket, std::span<const std::byte> bytes, std::span<const int> fds = {},
                  Wait wait = Wait::as_the_socket_is_set);

/// Receives one message. Nothing when there is none and it may not wait. Throws OsError; EAGAIN
/// when the patience of a blocking socket ran out, EMSGSIZE when the message is longer than the
/// buffer, EMFILE when descriptors were lost because this process may not open more.
[[nodiscard]] std::optional<Received> receive_message(const Fd& socket, std::span<std::byte> buffer,
                                                      Wait wait = Wait::as_the_socket_is_set);

struct PeerCredentials {
  pid_t pid = 0;  ///< as seen from here; 0 when the peer lives in another PID namespace
  uid_t uid = 0;
};

[[nodiscard]] PeerCredentials peer_credentials(const Fd& socket);

/// A pidfd for the peer straight from the socket (Linux 6.5); empty where that is not known.
[[nodiscard]] Fd peer_pidfd(const Fd& socket) noexcept;

}  // namespace shmtensor
