// Asks the kernel which sockets exist (sock_diag), by inode number.
#pragma once

#include <cstdint>
#include <optional>

#include "os/fd.hpp"

namespace shmtensor {

/// Identifies a Unix socket of one network namespace. The kernel never uses a cookie again.
struct UnixSocketId {
  std::uint32_t inode = 0;
  std::uint64_t cookie = 0;
};

/// A netlink socket for questions about Unix sockets of this process's network namespace.
/// Threads: one.
class UnixDiag {
 public:
  /// `known` is an open Unix socket of the namespace in question. If it is not found, no answer
  /// counts: this process is in another namespace, or the kernel, which then answers in the same
  /// way, has no part that could find it.
  explicit UnixDiag(const Fd& known) noexcept;

  /// Returns the peer of a connected Unix socket. Nothing for any other file, or if the peer is
  /// closed or cannot be determined.
  [[nodiscard]] std::optional<UnixSocketId> peer_of(int descriptor) noexcept;

  /// Return true if the socket is closed in every process, and in no message on its way. False if
  /// that cannot be determined.
  [[nodiscard]] bool is_closed(const UnixSocketId& socket) noexcept;

 private:
  struct Answer {
    int error = 0;  ///< the kernel's; EIO if its answer is not valid
    std::uint64_t cookie = 0;
    std::uint32_t peer = 0;
  };
  [[nodiscard]] Answer ask(std::uint32_t inode, std::uint64_t cookie) noexcept;

  Fd socket_;
  bool works_ = false;
};

}  // namespace shmtensor
