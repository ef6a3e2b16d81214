// Where the manager of a session listens: on an abstract name, or on a file in a directory.
#pragma once

#include <optional>
#include <string>

#include "base/ids.hpp"
#include "os/fd.hpp"
#include "os/socket_directory.hpp"

namespace shmtensor {

inline constexpr const char* kDirectoryVariable = "SHMTENSOR_RUNTIME_DIR";

/// Returns the directory that the variable names, in which all sessions of this process live; null
/// if it is not set. The first call decides. Throws SessionError if the directory cannot be used.
[[nodiscard]] const SocketDirectory* runtime_directory();

/// Returns the name on which the manager of a session listens: abstract, or a path in the
/// directory. Throws SessionError.
[[nodiscard]] std::string manager_address(const SessionId& session);

/// Listens for the clients of a session's manager. Nothing if a process does. Throws OsError,
/// SessionError.
[[nodiscard]] std::optional<Fd> listen_as_manager(const SessionId& session);

/// Removes the file on which the manager, which is this process, listens.
void remove_manager_file(const SessionId& session) noexcept;

}  // namespace shmtensor
