// A helper program begins as if no user's program had started it.
#pragma once

namespace shmtensor {

/// Resets what a process inherits from the one that started it and what would change how it works:
/// soft resource limits (raised to the hard ones), scheduling class and priority, processor
/// affinity, memory policy, I/O class, the OOM killer's score, file mode mask, working directory,
/// and the disposition of signals. A setting that the system does not permit to reset stays.
void reset_inherited_settings() noexcept;

}  // namespace shmtensor
