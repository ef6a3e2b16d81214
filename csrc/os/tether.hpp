// Ends a process and its descendants when another process ends.
//
// A lifeline is a pipe. Only the watched process has its write end open. A tether is the read end
// of a lifeline, opened a second time so that it has its own owner. When the last writer has closed
// the pipe, the kernel signals that owner, whatever it is doing. docs/design/launch.md explains why
// other mechanisms do not suffice.
#pragma once

#include <sys/types.h>

#include "os/fd.hpp"

namespace shmtensor {

/// Returns the parent-death signal; its default action ends the process.
[[nodiscard]] int tether_signal() noexcept;

/// Opens the read end of a lifeline again. The descriptor is inherited across exec, so that the
/// tether outlives an exec. Throws OsError.
[[nodiscard]] Fd open_tether(int lifeline);

/// Makes the kernel signal `owner` when the writer of the lifeline is gone. Throws OsError.
void tie(int tether, pid_t owner);

/// Binds the tether to this process, and sets a signal handler that ends the descendants of the
/// process, then the process. If the writer is gone already, the handler runs immediately.
/// Threads: the first thread, before it starts others.
void hold_on(int tether);

/// Kills every descendant of the process. Uses only system calls, since the signal handler calls
/// it.
void kill_descendants(pid_t pid) noexcept;

}  // namespace shmtensor
