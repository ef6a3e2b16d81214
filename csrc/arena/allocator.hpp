// The owner's books of its arena: which block numbers and which bytes are given out, and which
// extents of the data segment have pages.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "arena/budget.hpp"
#include "arena/segment.hpp"
#include "arena/space.hpp"

namespace shmtensor {

struct Piece {
  BlockNumber block = 0;
  std::uint64_t offset = 0;
};

/// Why so many more bytes cannot be reserved now; empty when nothing is known to stand in the way.
[[nodiscard]] std::string shortage_of(std::uint64_t size, const Budget& budget);

/// Threads: behind the arena's lock.
class Allocator {
 public:
  static constexpr std::uint64_t kExtent = 2 * kMiB;

  Allocator(const Segment& segment, Budget& budget) : segment_(segment), budget_(budget) {}

  /// A block number and bytes for it, without a system call. Nothing when that is not possible.
  [[nodiscard]] std::optional<Piece> take_warm(std::uint64_t size);

  /// The same, growing what must grow. Nothing when the arena is full, or when memory is short:
  /// then `short_of` says of what.
  [[nodiscard]] std::optional<Piece> take(std::uint64_t size);
  [[nodiscard]] const std::string& short_of() const noexcept { return short_of_; }

  /// Takes a block back whose word says that it is free. Told twice, or told of a block that has
  /// been handed out again since, it does nothing.
  void reclaim(BlockNumber block);

  /// Calls `visit(block)` for every block that is given out.
  template <typename Visit>
  void for_each_given(Visit&& visit) {
    for (BlockNumber block = 0; block < books_.size(); ++block) {
      if (books_[block] != Space::kNone) visit(block);
    }
  }

  /// Gives the pages of extents back that nobody has used for that long. A release does so now and
  /// then, so it may not fail.
  void trim(std::uint64_t idle_milliseconds) noexcept;

  [[nodiscard]] std::uint64_t reserved() const noexcept {
    return reserved_.load(std::memory_order_relaxed);
  }

 private:
  struct Extent {
    std::uint32_t used_at = 0;  ///< coarse milliseconds, cut to 32 bits: only differences count
    bool backed = false;
  };

  [[nodiscard]] std::optional<BlockNumber> take_number();
  [[nodiscard]] Space::Range take_range(std::uint64_t size);
  [[nodiscard]] bool is_backed(Space::Range range) const noexcept;
  [[nodiscard]] bool back(Space::Range range);
  [[nodiscard]] bool grow(std::uint64_t size);
  [[nodiscard]] bool reserve(std::uint64_t offset, std::uint64_t size);
  void touch(Space::Range range) noexcept;
  Piece book(BlockNumber block, Space::Range range);

  const Segment& segment_;
  Budget& budget_;
  Space space_;
  std::vector<Space::Range> books_;        // by block number; kNone while not given out
  std::vector<BlockNumber> free_numbers_;  // of blocks given back
  std::vector<Extent> extents_;
  std::atomic<std::uint64_t> reserved_{0};  // read by threads that only count
  std::string short_of_;  // why the last `take` failed; empty when the arena was full
};

}  // namespace shmtensor
