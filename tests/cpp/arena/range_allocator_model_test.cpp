// RangeAllocator compared with a model that records every byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <new>
#include <random>

#include "arena/range_allocator.hpp"
#include "base/align.hpp"
#include "support/scarce_heap.hpp"

namespace shmtensor {
namespace {

class SpaceModel : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  [[nodiscard]] std::uint64_t pick(std::uint64_t below) { return random_() % below; }

  // Mostly small sizes, up to a few MiB.
  [[nodiscard]] std::uint64_t pick_size() { return pick(std::uint64_t{1} << (3 + pick(19))); }

  // If the heap is scarce, the call fails at each place where it can fail, before it succeeds.
  template <typename Body>
  auto with_the_heap(Body&& body) {
    for (std::uint64_t left = 0; scarce_; ++left) {
      try {
        const testing::ScarceHeap heap(left);
        return body();
      } catch (const std::bad_alloc&) {
        ++failures_;
      }
    }
    return body();
  }

  void take() {
    const std::uint64_t size = pick_size();
    const std::uint64_t alignment = std::uint64_t{64} << (pick(4) == 0 ? pick(7) : 0);
    const auto range = with_the_heap([&] { return space_.allocate(size, alignment); });
    if (range == RangeAllocator::kNone) {
      // A good fit may miss a range, but only one that is larger by less than the width of a class.
      const std::uint64_t enough = size + size / 16 + 2 * alignment + 128;
      space_.for_each_free(enough, [&](std::uint64_t offset, std::uint64_t length) {
        ADD_FAILURE() << length << " bytes at " << offset << " were overlooked for " << size;
      });
      const std::uint64_t more = (1 + pick(3)) * kMiB;
      with_the_heap([&] {
        space_.extend(more);
        return true;
      });
      return;
    }
    const std::uint64_t offset = space_.offset(range);
    const std::uint64_t length = space_.size(range);
    EXPECT_EQ(offset % alignment, 0u);
    EXPECT_EQ(length, align_up(std::max(size, RangeAllocator::kUnit), RangeAllocator::kUnit));
    EXPECT_LE(offset + length, space_.total());
    const auto [at, fresh] = taken_.try_emplace(offset, Taken{length, range});
    ASSERT_TRUE(fresh) << offset << " was given twice";
    if (at != taken_.begin()) {
      const auto& [before, piece] = *std::prev(at);
      EXPECT_LE(before + piece.size, offset);
    }
    if (const auto after = std::next(at); after != taken_.end()) {
      EXPECT_LE(offset + length, after->first);
    }
  }

  // It is filled and emptied alternately.
  void run(int steps) {
    for (int step = 0; step < steps && !HasFailure(); ++step) {
      if (pick(10) < (step / 500 % 2 == 0 ? 7u : 3u)) {
        take();
      } else {
        give();
      }
      if (step % 50 == 0) compare();
    }
  }

  void give() {
    if (taken_.empty()) return;
    auto at = taken_.lower_bound(pick(space_.total()));
    if (at == taken_.end()) at = taken_.begin();
    space_.free(at->second.range);
    taken_.erase(at);
  }

  // The free ranges are the complement of the allocated ones, and no two of them are adjacent.
  void compare() const {
    std::map<std::uint64_t, std::uint64_t> gaps;
    std::uint64_t end = 0;
    std::uint64_t sum = 0;
    for (const auto& [offset, piece] : taken_) {
      if (offset > end) gaps[end] = offset - end;
      end = offset + piece.size;
      sum += piece.size;
    }
    if (space_.total() > end) gaps[end] = space_.total() - end;
    std::map<std::uint64_t, std::uint64_t> free;
    space_.for_each_free(1, [&](std::uint64_t offset, std::uint64_t size) { free[offset] = size; });
    EXPECT_EQ(free, gaps);
    EXPECT_EQ(space_.taken(), sum);
  }

  struct Taken {
    std::uint64_t size;
    RangeAllocator::Range range;
  };
  bool scarce_ = false;
  int failures_ = 0;
  std::mt19937_64 random_{GetParam()};
  RangeAllocator space_;
  std::map<std::uint64_t, Taken> taken_;
};

TEST_P(SpaceModel, MatchesModelAndCoalescesAllRanges) {
  run(6'000);
  EXPECT_GT(space_.total(), kMiB);
  while (!taken_.empty()) give();
  compare();
  EXPECT_EQ(space_.size(space_.allocate(space_.total())), space_.total());
}

// A range that was removed from its list and then not split, because the heap was exhausted, was
// still marked free: a freed neighbour was merged with it, and its bytes were allocated twice.
TEST_P(SpaceModel, ExhaustedHeapLosesNoRange) {
  scarce_ = true;
  run(3'000);
  EXPECT_GT(failures_, 5);
  while (!taken_.empty()) give();
  compare();
}

INSTANTIATE_TEST_SUITE_P(Seeds, SpaceModel, ::testing::Range(std::uint64_t{1}, std::uint64_t{9}));

}  // namespace
}  // namespace shmtensor
