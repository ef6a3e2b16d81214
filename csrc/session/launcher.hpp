// What a launcher says of the job that this process belongs to.
#pragma once

#include <string>

namespace shmtensor {

/// A text that is the same in all processes that one run of a launcher started on this machine, and
/// in no others; empty when no launcher is known. The list is in docs/guide/one-copy.md.
[[nodiscard]] std::string launcher_job();

}  // namespace shmtensor
