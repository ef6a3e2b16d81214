// Ends a process and its descendants when another process ends.
//
// Only the watched process has the write end of the parent-death pipe open. A process that is to
// end with it opens the read end a second time, so that this open file has an owner of its own.
// When the last writer has closed the pipe, the kernel signals that owner, whatever it is doing.
// docs/design/fork-and-exit.md explains why other mechanisms do not suffice.
#pragma once

#include <sys/types.h>

#include "os/fd.hpp"

namespace shmtensor {

/// Returns the parent-death signal; its default action ends the process.
[[nodiscard]] int parent_death_signal() noexcept;

/// Opens the read end of a parent-death pipe again. The descriptor is inherited across exec, so
/// that the pipe end outlives an exec. Throws OsError.
[[nodiscard]] Fd open_parent_death_pipe(int read_end);

/// Makes the kernel signal `owner` when the pipe's writer is gone. Throws OsError.
void bind_parent_death_signal(int pipe_end, pid_t owner);

/// Binds the pipe end to this process, and sets a signal handler that ends the descendants of the
/// process, then the process. If the writer is gone already, the handler runs immediately.
/// Threads: the first thread, before it starts others.
void arm_parent_death_signal(int pipe_end);

/// Kills every descendant of the process. Uses only system calls, since the signal handler calls
/// it.
void kill_descendants(pid_t pid) noexcept;

}  // namespace shmtensor
