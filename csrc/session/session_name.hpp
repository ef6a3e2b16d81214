// Ids of sessions that are named by a text: by the user, or by a launcher (torchrun, srun, mpirun).
#pragma once

#include <string>

#include "base/ids.hpp"

namespace shmtensor {

/// Returns the id of the session with that name: 32 hexadecimal digits are an id, any other text
/// names a session of this user. Two users who choose the same text have two sessions.
[[nodiscard]] SessionId session_named(const std::string& text);

/// Returns a text that is the same in all processes that one run of a launcher started on this
/// machine, and differs from that of all other processes. Empty if no launcher is known.
/// docs/guide/one-copy.md lists the launchers.
[[nodiscard]] std::string job_id();

}  // namespace shmtensor
