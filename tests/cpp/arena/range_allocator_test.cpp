#include "arena/range_allocator.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "base/align.hpp"

namespace shmtensor {
namespace {

using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

Ranges free_ranges(const RangeAllocator& space, std::uint64_t size = 1) {
  Ranges ranges;
  space.for_each_free(size, [&](std::uint64_t offset, std::uint64_t length) {
    ranges.emplace_back(offset, length);
  });
  return ranges;
}

TEST(RangeAllocator, EmptyAllocatorAllocatesNothing) {
  RangeAllocator space;
  EXPECT_EQ(space.allocate(1), RangeAllocator::kNone);
  EXPECT_EQ(space.total(), 0u);
  EXPECT_TRUE(free_ranges(space).empty());
}

TEST(RangeAllocator, ExtensionFitsExactly) {
  for (std::uint64_t size = 64; size < 16 * kMiB; size += 64 + size / 7 / 64 * 64) {
    RangeAllocator space;
    space.extend(size);
    const RangeAllocator::Range range = space.allocate(size);
    ASSERT_NE(range, RangeAllocator::kNone) << size;
    EXPECT_EQ(space.offset(range), 0u);
    EXPECT_EQ(space.taken(), size);
    EXPECT_EQ(space.allocate(64), RangeAllocator::kNone);
    space.extend(size);
    EXPECT_EQ(space.offset(space.allocate(size)), size);
  }
}

TEST(RangeAllocator, UnsatisfiableAlignmentIsRejected) {
  RangeAllocator space;
  space.extend(8192);
  const RangeAllocator::Range first = space.allocate(64);
  EXPECT_EQ(space.allocate(4096 + 64, 4096), RangeAllocator::kNone);
  EXPECT_EQ(space.offset(space.allocate(4096, 4096)), 4096u);
  space.free(first);
  EXPECT_EQ(space.taken(), 4096u);
}

TEST(RangeAllocator, SizesBeyondAllClassesAreRejected) {
  RangeAllocator space;
  space.extend(kMiB);
  for (int shift = 20; shift < 64; ++shift) {
    EXPECT_EQ(space.allocate((std::uint64_t{1} << shift) + 1), RangeAllocator::kNone) << shift;
  }
  EXPECT_NE(space.allocate(kMiB), RangeAllocator::kNone);
}

TEST(RangeAllocator, SmallestRangesAreSkippedOnRequest) {
  RangeAllocator space;
  space.extend(kMiB);
  const RangeAllocator::Range a = space.allocate(1024);
  static_cast<void>(space.allocate(1024));
  space.free(a);
  EXPECT_EQ(free_ranges(space, 1025).size(), 1u);
  EXPECT_EQ(free_ranges(space, 1024).size(), 2u);
}

TEST(RangeAllocator, RangesAreNotCoalescedAcrossGaps) {
  RangeAllocator space;
  space.extend_at(0, kMiB);
  space.extend_at(16 * kMiB, kMiB);
  EXPECT_EQ(space.total(), 2 * kMiB);
  EXPECT_EQ(space.allocate(2 * kMiB), RangeAllocator::kNone) << "no range is that large";
  const RangeAllocator::Range first = space.allocate(kMiB);
  const RangeAllocator::Range second = space.allocate(kMiB);
  ASSERT_NE(second, RangeAllocator::kNone);
  EXPECT_EQ(space.offset(first) + space.offset(second), 16 * kMiB);
  space.free(first);
  space.free(second);
  EXPECT_EQ(free_ranges(space), (Ranges{{0, kMiB}, {16 * kMiB, kMiB}}));
}

TEST(RangeAllocator, OnlyWholeFreeRangesAreRemoved) {
  RangeAllocator space;
  for (const std::uint64_t at : {0u, 16u, 32u}) space.extend_at(at * kMiB, kMiB);
  const RangeAllocator::Range taken = space.allocate(kMiB);
  const std::uint64_t place = space.offset(taken);
  EXPECT_FALSE(space.remove(place, kMiB)) << "it is in use";
  EXPECT_FALSE(space.remove(8 * kMiB, kMiB)) << "the range does not exist";
  space.free(taken);
  const RangeAllocator::Range part = space.allocate(kMiB / 2);
  EXPECT_FALSE(space.remove(space.offset(part) / kMiB * kMiB, kMiB)) << "a part is in use";
  space.free(part);
  EXPECT_TRUE(space.remove(16 * kMiB, kMiB));
  EXPECT_EQ(free_ranges(space), (Ranges{{0, kMiB}, {32 * kMiB, kMiB}}));
  EXPECT_TRUE(space.remove(32 * kMiB, kMiB));
  EXPECT_TRUE(space.remove(0, kMiB));
  EXPECT_EQ(space.total(), 0u);
  EXPECT_EQ(space.allocate(64), RangeAllocator::kNone);
  space.extend_at(48 * kMiB, kMiB);
  EXPECT_EQ(space.offset(space.allocate(kMiB)), 48 * kMiB);
}

}  // namespace
}  // namespace shmtensor
