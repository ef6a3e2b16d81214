// Anonymous shared files: no name in any file system, so nothing to leak.
#pragma once

#include <string>

#include "os/fd.hpp"

namespace shmtensor {

/// Creates a memfd, close-on-exec, that can be sealed. The name shows up in /proc/PID/fd as
/// "/memfd:<name> (deleted)" and means nothing to the kernel.
[[nodiscard]] Fd create_memfd(const std::string& name);

/// Nobody, this process included, may shorten the file from now on: a mapping of it cannot be
/// turned into SIGBUS by a peer.
void seal_against_shrinking(const Fd& file);

[[nodiscard]] bool is_sealed_against_shrinking(const Fd& file) noexcept;

}  // namespace shmtensor
