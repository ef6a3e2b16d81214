// Limits the memory that the manager releases to the system per turn of its loop.
#pragma once

#include <cstdint>

#include "base/align.hpp"
#include "os/fd.hpp"

namespace shmtensor {

/// The kernel needs seconds to free a few GiB, so requests are answered after each allowance.
/// Threads: one.
class ReclaimQuota {
 public:
  /// Releases the pages of the file from `at` to `end`, as far as the allowance permits, and
  /// advances `at`. Returns true if it reached the end.
  bool discard(const Fd& file, std::uint64_t& at, std::uint64_t end);

 private:
  std::uint64_t left_ = 64 * kMiB;
};

}  // namespace shmtensor
