// The messages of a client, and the manager's replies.
#pragma once

#include <string>

#include "manager/protocol.hpp"
#include "os/fd.hpp"
#include "os/unix_socket.hpp"

namespace shmtensor {

inline constexpr int kMostQueued = 4096;  ///< more messages than a socket's buffer takes

/// Return true if this manager can read the message.
[[nodiscard]] bool is_request(const Received& received, const Message& message,
                              const SessionId& session) noexcept;

/// Sends the answer, with a copy of `fd` unless that is null. Never waits. Throws OsError if the
/// client does not read, or has closed the connection.
void reply(const Fd& socket, Message message, MessageKind kind, const Fd* fd = nullptr);
void refuse(const Fd& socket, Message message, const std::string& why);

[[nodiscard]] bool is_socket(const Fd& fd);

}  // namespace shmtensor
