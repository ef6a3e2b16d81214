// The extents of a data segment that consists of pages of the arena's file: which have pages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arena/budget.hpp"
#include "arena/segment.hpp"
#include "arena/yielding_lock.hpp"
#include "base/atomic.hpp"

namespace shmtensor {

/// Only the thread that has marked an extent as changing creates or frees its pages. It holds no
/// lock in that time, and waits for no other extent.
/// Threads: `reserved` may be called at any time; the other members are protected by the arena's
/// lock. Functions that take the lock as an argument release it temporarily.
class ExtentTable {
 public:
  static constexpr std::uint64_t kExtent = 2 * kMiB;

  enum class Pages : std::uint8_t { absent, present, changing };
  /// A range of extent numbers.
  struct Run {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    [[nodiscard]] std::uint64_t size() const noexcept { return end - begin; }
  };
  /// Returns the extents that a range of bytes touches.
  [[nodiscard]] static Run touched_by(std::uint64_t offset, std::uint64_t size) noexcept {
    return {offset / kExtent, (offset + size - 1) / kExtent + 1};
  }
  /// Returns the extents that a range of bytes contains. May be empty, with `begin > end`.
  [[nodiscard]] static Run contained_in(std::uint64_t offset, std::uint64_t size) noexcept {
    return {align_up(offset, kExtent) / kExtent, (offset + size) / kExtent};
  }

  /// `budget` is the owner's; null in a peer, which calls none of the functions below.
  ExtentTable(const Segment& segment, Budget* budget) : segment_(segment), budget_(budget) {}

  /// Adds extents without pages, up to that number.
  void resize(std::uint64_t count) { extents_.resize(count); }
  [[nodiscard]] Pages pages(std::uint64_t extent) const noexcept { return extents_[extent].pages; }
  [[nodiscard]] std::uint64_t missing(Run run) const noexcept;
  /// Begins the idle time of the extents.
  void touch(Run run) noexcept;
  [[nodiscard]] bool is_idle(std::uint64_t extent, std::uint64_t milliseconds) const noexcept;
  void mark(Run run, Pages pages) noexcept;

  /// Creates the pages of absent extents. Returns the reason if memory is short for this run or for
  /// all bytes that are `needed`, else an empty text.
  [[nodiscard]] std::string make_present(YieldingLock& lock, Run run, std::uint64_t needed)
      REQUIRES(lock);
  /// Frees the pages. Returns false if no descriptor or no memory is available; the pages stay in
  /// that case.
  [[nodiscard]] bool make_absent(YieldingLock& lock, Run run) noexcept REQUIRES(lock);

  /// Returns the bytes of all pages.
  [[nodiscard]] std::uint64_t reserved() const noexcept {
    return reserved_.load(std::memory_order_relaxed);
  }

 private:
  struct Extent {
    std::uint32_t used_at = 0;  ///< coarse milliseconds, truncated to 32 bits: only differences
                                ///< count
    Pages pages = Pages::absent;
  };

  [[nodiscard]] std::string reserve(Run run, std::uint64_t needed);
  [[nodiscard]] std::string create(const Fd& file, std::uint64_t offset, std::uint64_t size,
                                   AvailableMemory available) const;

  const Segment& segment_;
  Budget* budget_;
  std::vector<Extent> extents_;
  Atomic<std::uint64_t> reserved_{0};  // also read by threads without the lock, for statistics
};

}  // namespace shmtensor
