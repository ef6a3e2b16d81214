// Checks whether a file, or the peer of a socket, belongs to the user of this process. The kernel
// reports all users that a user namespace does not map as one user, the overflow uid. For a process
// that runs as that user (a rootless container with USER nobody) all of them have its own uid, so
// equal uids prove nothing. In this case the functions try an operation that the kernel permits to
// the true owner only.
#pragma once

#include <cstdint>
#include <string_view>

#include "os/fd.hpp"

namespace shmtensor {

/// Return true if a user namespace with that /proc/PID/uid_map gives every user a distinct number.
[[nodiscard]] bool maps_every_uid(std::string_view uid_map) noexcept;

/// Return true if other users may have the same uid as this process. The result is not cached: a
/// process may change its user and its namespace.
[[nodiscard]] bool uid_is_ambiguous() noexcept;

/// Return true if the file belongs to the user of this process.
[[nodiscard]] bool owns_file(const Fd& file) noexcept;

enum class PeerUser : std::uint8_t {
  same,
  other,
  ended,    ///< unknown, because the process has ended
  unknown,  ///< unknown: before Linux 6.5, or in a PID namespace that is not below this one
};

/// Returns the user of the process that connected or listens at the other end of a socket. Throws
/// OsError.
[[nodiscard]] PeerUser user_of_peer(const Fd& socket);

/// The remedy that ends an error text when the user is unknown.
inline constexpr const char* kUnknownPeerAdvice =
    "every user whom this user namespace does not map appears as this process's own (uid 65534); "
    "run it as a user that the namespace maps, or all of the session in one PID namespace on Linux "
    "6.5 or newer";

}  // namespace shmtensor
