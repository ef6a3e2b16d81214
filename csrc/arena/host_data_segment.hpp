// Data segments that consist of pages of the arena's file.
#pragma once

#include <cstdint>

#include "arena/budget.hpp"
#include "arena/data_segment.hpp"
#include "arena/extent_table.hpp"
#include "arena/segment.hpp"
#include "base/atomic.hpp"

namespace shmtensor {

/// The segment consists of extents of 2 MiB. The owner reserves the pages of an extent before any
/// process may touch them, and releases the pages of idle extents.
class HostDataSegment final : public DataSegment {
 public:
  static constexpr std::uint64_t kExtent = ExtentTable::kExtent;

  /// `budget` is the owner's; null in a peer.
  HostDataSegment(const Segment& segment, Budget* budget)
      : segment_(segment), extents_(segment, budget) {}

  std::byte* at(std::uint64_t offset, std::uint64_t size, Access access) override;
  std::byte* at_once(std::uint64_t offset, std::uint64_t size, Access access) noexcept override;

  std::uint64_t alignment(std::uint64_t size) const noexcept override;
  std::uint64_t rounded(std::uint64_t size) const noexcept override;
  bool is_backed(std::uint64_t offset, std::uint64_t size) const noexcept override;
  bool back(YieldingLock& lock, std::uint64_t offset, std::uint64_t size) override REQUIRES(lock);
  bool grow(RangeAllocator& space, std::uint64_t size) override;
  void back_ahead(YieldingLock& lock) override REQUIRES(lock);
  void touch(std::uint64_t offset, std::uint64_t size) noexcept override;
  bool trim(YieldingLock& lock, RangeAllocator& space, std::uint64_t idle_milliseconds,
            std::uint64_t at_most) noexcept override REQUIRES(lock);
  bool trims_in_passing() const noexcept override { return true; }
  std::uint64_t reserved() const noexcept override { return extents_.reserved(); }

 private:
  using Pages = ExtentTable::Pages;
  using Run = ExtentTable::Run;

  [[nodiscard]] bool inside(std::uint64_t offset, std::uint64_t size) const noexcept;
  [[nodiscard]] bool in_known_file(std::uint64_t end) const noexcept {
    return end <= in_file_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool make_present(YieldingLock& lock, Run run, std::uint64_t needed) REQUIRES(lock);

  const Segment& segment_;
  ExtentTable extents_;
  Run ahead_;  // added by the last `grow`
  // The largest size of the segment that was seen in the file, which never shrinks.
  Atomic<std::uint64_t> in_file_{0};
};

}  // namespace shmtensor
