// How much memory the manager gives back to the system at a time.
#pragma once

#include <cstdint>

#include "base/align.hpp"
#include "os/fd.hpp"

namespace shmtensor {

/// The kernel needs seconds for a few GiB. Requests are answered after each allowance.
/// Threads: one.
class Allowance {
 public:
  /// Gives the file's pages from `at` to `end` back, as far as the allowance goes, and moves `at`.
  /// True when it got to the end.
  bool discard(const Fd& file, std::uint64_t& at, std::uint64_t end);

 private:
  std::uint64_t left_ = 64 * kMiB;
};

}  // namespace shmtensor
