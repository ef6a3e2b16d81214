// Local message sockets that carry descriptors: SOCK_SEQPACKET sockets. Their names are abstract,
// which leave no files, or paths, which begin with '/'.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "os/fd.hpp"

namespace shmtensor {

/// A received message. `size` 0 means that the peer closed the connection.
struct Received {
  std::size_t size = 0;
  std::vector<Fd> fds;
  pid_t sender = 0;  ///< set only after `ask_for_sender`
};

/// The limit on descriptors per message in this library (the kernel's limit is 253).
inline constexpr std::size_t kMaxFdsPerMessage = 8;

/// Binds a name. While the socket is open, no other process can listen on the name; nor on a path
/// as long as its file exists. Nothing if the name is in use.
[[nodiscard]] std::optional<Fd> bind_to(const std::string& name);

/// Binds and listens on a name. Nothing if the name is in use.
[[nodiscard]] std::optional<Fd> listen_on(const std::string& name);

/// Listens on a socket that another process bound, so that processes which connect later receive
/// the credentials of this process. Throws OsError.
void listen_as_this_process(const Fd& socket);

/// Connects to a name. Nothing if no process listens on it. This call and each later receive and
/// send on the socket wait for at most `timeout`.
[[nodiscard]] std::optional<Fd> connect_to(const std::string& name,
                                           std::chrono::milliseconds timeout);

/// Return true if a process listens on the name. Does not wait, even for one that is stopped.
[[nodiscard]] bool is_listening(const std::string& name);

/// Accepts a pending connection as a non-blocking socket. Returns an empty Fd if there is none, or
/// if no descriptor is left (see errno).
[[nodiscard]] Fd accept_connection(const Fd& listener);

/// Returns a connected pair of sockets; the first one is non-blocking.
[[nodiscard]] std::pair<Fd, Fd> socket_pair();

/// Sets how long a receive or send on the socket may wait, not counting the time in which this
/// process is stopped.
void set_timeout(const Fd& socket, std::chrono::milliseconds timeout);

/// Ends the connection for all processes that have the socket open.
void shut_down(const Fd& socket) noexcept;

/// Makes every receive on the socket report the pid of the sender, as the kernel knows it.
void ask_for_sender(const Fd& socket);

/// Whether a call may wait. The non-blocking mode belongs to the open file description. The peer of
/// a socket pair may share that description and change the mode at any time.
enum class Wait : std::uint8_t { as_the_socket_is_set, never };

/// Sends one whole message. Throws OsError; EPIPE if the peer has closed the connection, EAGAIN if
/// the call would have to wait.
void send_message(const Fd& socket, std::span<const std::byte> bytes, std::span<const int> fds = {},
                  Wait wait = Wait::as_the_socket_is_set);

/// Receives one message. Nothing if there is no message and the call may not wait. Throws OsError:
/// EAGAIN if a blocking socket reached its timeout, EMSGSIZE if the message is longer than the
/// buffer, EMFILE if descriptors were lost because this process may not open more.
[[nodiscard]] std::optional<Received> receive_message(const Fd& socket, std::span<std::byte> buffer,
                                                      Wait wait = Wait::as_the_socket_is_set);

struct PeerCredentials {
  pid_t pid = 0;  ///< 0 if the peer is in another PID namespace
  uid_t uid = 0;
};

[[nodiscard]] PeerCredentials peer_credentials(const Fd& socket);

/// Returns a pidfd of the peer, from the socket (Linux 6.5). Empty if the kernel does not support
/// it.
[[nodiscard]] Fd peer_pidfd(const Fd& socket) noexcept;

}  // namespace shmtensor
