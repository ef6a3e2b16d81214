// Releases the unused memory of an orphan arena, whose owner has ended or has retired it.
#pragma once

#include <cstdint>
#include <map>

#include "arena/segment.hpp"
#include "base/align.hpp"
#include "os/fd.hpp"

namespace shmtensor {

/// Limits the memory that the manager releases to the system per turn of its loop. The kernel needs
/// seconds to free a few GiB, so requests are answered after each allowance. Threads: one.
class ReclaimQuota {
 public:
  /// Releases the pages of the file from `at` to `end`, as far as the allowance permits, and
  /// advances `at`. Returns true if it reached the end.
  bool discard(const Fd& file, std::uint64_t& at, std::uint64_t end);

 private:
  std::uint64_t left_ = 64 * kMiB;
};

/// How far the memory of one arena has been released. A walk over all blocks, and over what lies
/// between them, takes time in proportion to their number. It is made when so much was freed that
/// each freed block pays for a few of them. Less than that stays with the arena until a process is
/// short of memory.
/// Threads: one.
class OrphanReclaim {
 public:
  using Chunks = std::map<std::uint32_t, Fd>;  ///< descriptors of device memory, by chunk

  /// The next `run` walks over all blocks.
  void restart() noexcept { released_ = 0; }
  /// The same if a block has been freed since the last walk.
  void restart_if_any_freed(const Segment& segment);
  /// Return true if a `run` would find nothing to release unless a block is freed.
  [[nodiscard]] bool is_done() const noexcept { return released_ == kAll; }

  /// Releases memory within the allowance. Returns false if the arena can be closed: it has no live
  /// block, and no process can open it any more.
  bool run(const Segment& segment, Chunks& chunks, ReclaimQuota& quota);

 private:
  static constexpr std::uint64_t kAll = ~std::uint64_t{0};

  void note_freed(const Segment& segment);
  [[nodiscard]] bool release_gaps(const Segment& segment, ReclaimQuota& quota);
  [[nodiscard]] bool release_chunks(const Segment& segment, Chunks& chunks);

  std::uint64_t released_ = 0;  ///< the data below this offset has been released
  std::uint64_t live_ = 0;      ///< blocks that lived at the last walk over all of them
  std::uint64_t freed_ = 0;     ///< blocks, and their bytes, that were freed since
  std::uint64_t freed_bytes_ = 0;
};

}  // namespace shmtensor
