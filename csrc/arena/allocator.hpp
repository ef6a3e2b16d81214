// The owner's books of its arena: which block numbers and which bytes are given out.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "arena/data.hpp"
#include "arena/segment.hpp"
#include "arena/space.hpp"
#include "os/limits.hpp"

namespace shmtensor {

struct Piece {
  BlockNumber block = 0;
  std::uint64_t offset = 0;
};

/// Threads: behind the arena's lock. What takes that lock as an argument gives it away while the
/// kernel works.
class Allocator {
 public:
  Allocator(const Segment& segment, Data& data) : segment_(segment), data_(data) {}

  /// A block number and bytes for it, without a system call. Nothing when that is not possible.
  [[nodiscard]] std::optional<Piece> take_warm(std::uint64_t size);

  /// The same, growing what must grow. Nothing when the arena is full, or when memory is short:
  /// then `short_of` says of what.
  [[nodiscard]] std::optional<Piece> take(YieldingLock& lock, std::uint64_t size);
  [[nodiscard]] const std::string& short_of() const noexcept { return data_.short_of(); }

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

  /// Gives memory back that nobody has used for that long, `at_most` bytes of it. Returns true if
  /// there is more. A release does so now and then, so it may not fail.
  bool trim(YieldingLock& lock, std::uint64_t idle_milliseconds,
            std::uint64_t at_most = kUnlimited) noexcept {
    return data_.trim(lock, space_, idle_milliseconds, at_most);
  }

 private:
  [[nodiscard]] bool spare_number();
  [[nodiscard]] bool make_number(YieldingLock& lock);
  [[nodiscard]] BlockNumber take_number() noexcept;
  [[nodiscard]] Space::Range take_range(std::uint64_t size);
  [[nodiscard]] bool back(YieldingLock& lock, Space::Range range);
  void touch(Space::Range range) noexcept;
  Piece book(BlockNumber block, Space::Range range) noexcept;

  const Segment& segment_;
  Data& data_;
  Space space_;
  std::vector<Space::Range> books_;        // by block number; kNone while not given out
  std::vector<BlockNumber> free_numbers_;  // of blocks given back
  bool growing_ = false;                   // a thread is making block records
};

}  // namespace shmtensor
