// Data segments that consist of pages of the arena's file.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "arena/budget.hpp"
#include "arena/data_segment.hpp"
#include "arena/segment.hpp"

namespace shmtensor {

/// Returns why `size` more bytes cannot be reserved now; empty if no reason is known.
[[nodiscard]] std::string shortage_of(std::uint64_t size, const Budget& budget);

/// The segment consists of extents of 2 MiB. The owner reserves the pages of an extent before any
/// process may touch them, and releases the pages of idle extents.
class HostDataSegment final : public DataSegment {
 public:
  static constexpr std::uint64_t kExtent = 2 * kMiB;

  /// `budget` is the owner's; null in a peer.
  HostDataSegment(const Segment& segment, Budget* budget) : segment_(segment), budget_(budget) {}

  std::byte* at(std::uint64_t offset, std::uint64_t size, Access access) override;
  std::byte* at_once(std::uint64_t offset, std::uint64_t size, Access access) noexcept override;

  std::uint64_t alignment(std::uint64_t size) const noexcept override;
  std::uint64_t rounded(std::uint64_t size) const noexcept override;
  bool is_backed(std::uint64_t offset, std::uint64_t size) const noexcept override;
  bool back(YieldingLock& lock, std::uint64_t offset, std::uint64_t size) override;
  bool grow(RangeAllocator& space, std::uint64_t size) override;
  void back_ahead(YieldingLock& lock) override;
  void touch(std::uint64_t offset, std::uint64_t size) noexcept override;
  bool trim(YieldingLock& lock, RangeAllocator& space, std::uint64_t idle_milliseconds,
            std::uint64_t at_most) noexcept override;
  bool trims_in_passing() const noexcept override { return true; }
  std::uint64_t reserved() const noexcept override {
    return reserved_.load(std::memory_order_relaxed);
  }

 private:
  /// Only the thread that has marked an extent as changing creates or frees its pages. It holds no
  /// lock in that time, and waits for no other extent.
  enum class Pages : std::uint8_t { absent, present, changing };
  struct Extent {
    std::uint32_t used_at = 0;  ///< coarse milliseconds, truncated to 32 bits: only differences
                                ///< count
    Pages pages = Pages::absent;
  };
  /// A range of extent numbers.
  struct Run {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  static constexpr std::size_t kRuns = 64;

  [[nodiscard]] bool inside(std::uint64_t offset, std::uint64_t size) const noexcept;
  [[nodiscard]] bool in_known_file(std::uint64_t end) const noexcept {
    return end <= in_file_.load(std::memory_order_relaxed);
  }
  void mark(Run run, Pages pages) noexcept;
  [[nodiscard]] std::string reserve(Run run, std::uint64_t needed);
  [[nodiscard]] bool make_present(YieldingLock& lock, Run run, std::uint64_t needed);
  [[nodiscard]] bool make_absent(YieldingLock& lock, Run run) noexcept;
  [[nodiscard]] std::uint64_t missing(Run run) const noexcept;

  const Segment& segment_;
  Budget* budget_;
  std::vector<Extent> extents_;
  Run ahead_;                               // added by the last `grow`
  std::atomic<std::uint64_t> reserved_{0};  // also read by threads without the lock, for statistics
  // The largest size of the segment that was seen in the file, which never shrinks.
  std::atomic<std::uint64_t> in_file_{0};
};

}  // namespace shmtensor
