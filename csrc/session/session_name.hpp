// Ids of sessions: named by a text of the user or of a launcher (torchrun, srun, mpirun), or those
// of the runs of programs.
#pragma once

#include <cstdint>
#include <string>

#include "base/ids.hpp"

namespace shmtensor {

/// Returns the id of the session with that name: 32 hexadecimal digits are an id, any other text
/// names a session of this user, or of the runtime directory. Two users who choose the same text
/// have two sessions.
[[nodiscard]] SessionId session_named(const std::string& text);

/// Returns a text that is the same in all processes that one run of a launcher started on this
/// machine, and differs from that of all other processes. Empty if no launcher is known.
/// docs/guide/with-mpi.md lists the launchers.
[[nodiscard]] std::string job_id();

/// Returns the id of the session of the program whose first process that is: its workers find the
/// same id, without a message and in any order, and other users cannot guess it. Random if /proc
/// does not show the process.
[[nodiscard]] SessionId session_of_run(std::int32_t first);

}  // namespace shmtensor
