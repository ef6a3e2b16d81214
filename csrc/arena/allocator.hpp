// The owner's bookkeeping of its arena: the allocated block numbers and bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "arena/data_segment.hpp"
#include "arena/range_allocator.hpp"
#include "arena/segment.hpp"
#include "base/atomic.hpp"
#include "os/limits.hpp"

namespace shmtensor {

struct NewBlock {
  BlockNumber block = 0;
  std::uint64_t offset = 0;
};

/// Threads: protected by the arena's lock. Functions that take the lock as an argument release it
/// during system calls.
class Allocator {
 public:
  Allocator(const Segment& segment, DataSegment& data) : segment_(segment), data_(data) {}

  /// Allocates a block number and bytes for it, without a system call. Nothing if that is not
  /// possible.
  [[nodiscard]] std::optional<NewBlock> take_warm(std::uint64_t size);

  /// Like `take_warm`, but grows the arena as needed. Nothing if the arena is full or memory is
  /// short; in the latter case `short_of` returns the reason.
  [[nodiscard]] std::optional<NewBlock> take(YieldingLock& lock, std::uint64_t size) REQUIRES(lock);
  [[nodiscard]] const std::string& short_of() const noexcept { return data_.short_of(); }

  /// Frees a block whose word indicates that it is free. Does nothing if the block was freed
  /// already, or has been allocated again since.
  void reclaim(BlockNumber block);

  /// Return true if no block and no range is allocated.
  [[nodiscard]] bool empty() const noexcept { return space_.taken() == 0; }

  /// Calls `visit(block)` for every allocated block.
  template <typename Visit>
  void for_each_allocated(Visit&& visit) {
    for (BlockNumber block = 0; block < ranges_.size(); ++block) {
      if (ranges_[block] != RangeAllocator::kNone) visit(block);
    }
  }

  /// Releases memory that has been idle for the given time, at most `at_most` bytes. Returns true
  /// if there is more. Must not fail, because releases of tensors call it.
  bool trim(YieldingLock& lock, std::uint64_t idle_milliseconds,
            std::uint64_t at_most = kUnlimited) noexcept REQUIRES(lock) {
    return data_.trim(lock, space_, idle_milliseconds, at_most);
  }

 private:
  // Numbers are made in tiles and used in strides, so that blocks that are allocated one after the
  // other, and may be used by different processors, share no cache line: a line has the holders of
  // 8 blocks, or 2 records. The capacity of a segment is a multiple of a tile.
  static constexpr std::size_t kTile = 1024;
  static constexpr std::size_t kStride = 8;

  [[nodiscard]] bool spare_number();
  [[nodiscard]] bool make_number(YieldingLock& lock) REQUIRES(lock);
  [[nodiscard]] BlockNumber take_number() noexcept;
  [[nodiscard]] RangeAllocator::Range take_range(std::uint64_t size);
  [[nodiscard]] bool back(YieldingLock& lock, RangeAllocator::Range range) REQUIRES(lock);
  void touch(RangeAllocator::Range range) noexcept;
  NewBlock assign(BlockNumber block, RangeAllocator::Range range) noexcept;

  const Segment& segment_;
  DataSegment& data_;
  RangeAllocator space_;
  std::vector<RangeAllocator::Range> ranges_;  // by block number; kNone while not allocated
  std::vector<BlockNumber> free_numbers_;      // numbers of freed blocks
  bool growing_ = false;                       // a thread is creating block records
};

}  // namespace shmtensor
