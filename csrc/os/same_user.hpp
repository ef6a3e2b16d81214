// Do a file, and the process at the other end of a socket, belong to this user? The kernel shows
// every user that a user namespace does not map as one and the same, the overflow uid. A process
// that runs under it (a rootless container with USER nobody) sees all of them as itself: there an
// equal number proves nothing, and the kernel is asked for what it permits to the true owner only.
#pragma once

#include <string_view>

#include "os/fd.hpp"

namespace shmtensor {

/// Return true if a user namespace with that /proc/PID/uid_map shows every user by a number of its
/// own.
[[nodiscard]] bool maps_every_uid(std::string_view uid_map) noexcept;

/// Return true if other users may appear as this one. Not remembered: a process may change its user
/// and its namespace.
[[nodiscard]] bool uid_is_ambiguous() noexcept;

/// Return true if the file is this user's.
[[nodiscard]] bool owns_file(const Fd& file) noexcept;

enum class PeerUser {
  same,
  other,
  ended,    ///< cannot be told any more: the process has ended
  unknown,  ///< cannot be told: before Linux 6.5, or in a PID namespace that is not below this one
};

/// The user of the process that connected a socket, or that listens where it is connected to.
/// Throws OsError.
[[nodiscard]] PeerUser user_of_peer(const Fd& socket);

/// What to do where that is unknown, for the end of an error.
inline constexpr const char* kUnknownPeerAdvice =
    "every user whom this user namespace does not map appears as this process's own (uid 65534); "
    "run it as a user that the namespace maps, or all of the session in one PID namespace on Linux "
    "6.5 or newer";

}  // namespace shmtensor
