// Ending a process, and what it started, as soon as another one is gone.
//
// A lifeline is a pipe whose writing end only the process that is watched has open. A tether is the
// reading end, opened anew so that it has an owner of its own: when the last writer is gone, the
// kernel signals that owner, whatever it is doing. docs/design/launch.md says why not otherwise.
#pragma once

#include <sys/types.h>

#include "os/fd.hpp"

namespace shmtensor {

/// The signal by which a tether tells; its default action ends the process.
[[nodiscard]] int tether_signal() noexcept;

/// Opens the reading end of a lifeline anew. The descriptor is inherited by programs that the
/// process executes, so that an exec does not cut it. Throws OsError.
[[nodiscard]] Fd open_tether(int lifeline);

/// From now on the kernel signals `owner` when the lifeline's writer is gone. Throws OsError.
void tie(int tether, pid_t owner);

/// Ties the tether to this process, and has the signal end its descendants first, then itself. Does
/// so at once if the writer is gone already. Threads: the first one, before others start.
void hold_on(int tether);

/// Kills every descendant of the process, children of children included. Only system calls: the
/// signal handler uses it.
void kill_descendants(pid_t pid) noexcept;

}  // namespace shmtensor
