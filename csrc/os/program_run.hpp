// The processes of one run of a program: its first process and the workers that this one made, or
// MPICH's ranks of a machine.
#pragma once

#include <sys/types.h>

namespace shmtensor {

/// Returns the first process of the program that this process is a worker of: the farthest ancestor
/// over parents that forked their child, or started it through `multiprocessing` or loky. This
/// process itself if its parent did neither, as a shell; or if that cannot be determined, because
/// /proc is not mounted, or is another namespace's.
[[nodiscard]] pid_t first_process_of_run() noexcept;

}  // namespace shmtensor
