// Anonymous shared files. They have no name in a file system, so no name can be left over.
#pragma once

#include <string>

#include "os/fd.hpp"

namespace shmtensor {

/// Creates a close-on-exec memfd that can be sealed. /proc/PID/fd shows the name as "/memfd:<name>
/// (deleted)"; the kernel does not use it otherwise.
[[nodiscard]] Fd create_memfd(const std::string& name);

/// Prevents every process, this one included, from shortening the file, so that a peer cannot cause
/// SIGBUS in a mapping of it.
void seal_against_shrinking(const Fd& file);

[[nodiscard]] bool is_sealed_against_shrinking(const Fd& file) noexcept;

}  // namespace shmtensor
