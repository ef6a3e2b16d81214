// The job that a launcher (torchrun, srun, mpirun) assigned to this process.
#pragma once

#include <string>

namespace shmtensor {

/// Returns a text that is the same in all processes that one run of a launcher started on this
/// machine, and differs from that of all other processes. Empty if no launcher is known.
/// docs/guide/one-copy.md lists the launchers.
[[nodiscard]] std::string job_id();

}  // namespace shmtensor
