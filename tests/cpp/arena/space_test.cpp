#include "arena/space.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "base/align.hpp"

namespace shmtensor {
namespace {

using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

Ranges free_ranges(const Space& space, std::uint64_t size = 1) {
  Ranges ranges;
  space.for_each_free(size, [&](std::uint64_t offset, std::uint64_t length) {
    ranges.emplace_back(offset, length);
  });
  return ranges;
}

TEST(Space, EmptyAllocatorAllocatesNothing) {
  Space space;
  EXPECT_EQ(space.take(1), Space::kNone);
  EXPECT_EQ(space.total(), 0u);
  EXPECT_TRUE(free_ranges(space).empty());
}

TEST(Space, RoundsUpToUnits) {
  Space space;
  space.extend(kMiB);
  for (const auto& [asked, given] : Ranges{{0, 64}, {1, 64}, {64, 64}, {65, 128}, {6400, 6400}}) {
    EXPECT_EQ(space.size(space.take(asked)), given);
  }
}

TEST(Space, ExtensionFitsExactly) {
  for (std::uint64_t size = 64; size < 16 * kMiB; size += 64 + size / 7 / 64 * 64) {
    Space space;
    space.extend(size);
    const Space::Range range = space.take(size);
    ASSERT_NE(range, Space::kNone) << size;
    EXPECT_EQ(space.offset(range), 0u);
    EXPECT_EQ(space.taken(), size);
    EXPECT_EQ(space.take(64), Space::kNone);
    space.extend(size);
    EXPECT_EQ(space.offset(space.take(size)), size);
  }
}

TEST(Space, ExtensionCoalescesWithPrecedingFreeRange) {
  Space space;
  space.extend(4 * kMiB);
  const Space::Range first = space.take(3 * kMiB);
  space.extend(4 * kMiB);
  EXPECT_EQ(free_ranges(space), (Ranges{{3 * kMiB, 5 * kMiB}}));
  EXPECT_EQ(space.offset(space.take(5 * kMiB)), 3 * kMiB);
  space.give(first);
  EXPECT_EQ(free_ranges(space), (Ranges{{0, 3 * kMiB}}));
}

TEST(Space, FreeingCoalescesBothNeighbours) {
  Space space;
  space.extend(kMiB);
  const Space::Range a = space.take(1024);
  const Space::Range b = space.take(1024);
  const Space::Range c = space.take(1024);
  const Space::Range d = space.take(1024);
  space.give(a);
  space.give(c);
  EXPECT_EQ(free_ranges(space), (Ranges{{0, 1024}, {2048, 1024}, {4096, kMiB - 4096}}));
  space.give(b);
  EXPECT_EQ(free_ranges(space), (Ranges{{0, 3072}, {4096, kMiB - 4096}}));
  space.give(d);
  EXPECT_EQ(free_ranges(space), (Ranges{{0, kMiB}}));
  EXPECT_EQ(space.taken(), 0u);
}

TEST(Space, AlignmentLeavesTheFrontFree) {
  Space space;
  space.extend(64 * kKiB);
  static_cast<void>(space.take(64));
  const Space::Range aligned = space.take(8192, 4096);
  EXPECT_EQ(space.offset(aligned), 4096u);
  EXPECT_EQ(free_ranges(space), (Ranges{{64, 4032}, {12288, 64 * kKiB - 12288}}));
}

TEST(Space, UnsatisfiableAlignmentIsRejected) {
  Space space;
  space.extend(8192);
  const Space::Range first = space.take(64);
  EXPECT_EQ(space.take(4096 + 64, 4096), Space::kNone);
  EXPECT_EQ(space.offset(space.take(4096, 4096)), 4096u);
  space.give(first);
  EXPECT_EQ(space.taken(), 4096u);
}

TEST(Space, SizesBeyondAllClassesAreRejected) {
  Space space;
  space.extend(kMiB);
  for (int shift = 20; shift < 64; ++shift) {
    EXPECT_EQ(space.take((std::uint64_t{1} << shift) + 1), Space::kNone) << shift;
  }
  EXPECT_NE(space.take(kMiB), Space::kNone);
}

TEST(Space, SmallestRangesAreSkippedOnRequest) {
  Space space;
  space.extend(kMiB);
  const Space::Range a = space.take(1024);
  static_cast<void>(space.take(1024));
  space.give(a);
  EXPECT_EQ(free_ranges(space, 1025).size(), 1u);
  EXPECT_EQ(free_ranges(space, 1024).size(), 2u);
}

TEST(Space, RangesAreNotCoalescedAcrossGaps) {
  Space space;
  space.extend_at(0, kMiB);
  space.extend_at(16 * kMiB, kMiB);
  EXPECT_EQ(space.total(), 2 * kMiB);
  EXPECT_EQ(space.take(2 * kMiB), Space::kNone) << "none is that large";
  const Space::Range first = space.take(kMiB);
  const Space::Range second = space.take(kMiB);
  ASSERT_NE(second, Space::kNone);
  EXPECT_EQ(space.offset(first) + space.offset(second), 16 * kMiB);
  space.give(first);
  space.give(second);
  EXPECT_EQ(free_ranges(space), (Ranges{{0, kMiB}, {16 * kMiB, kMiB}}));
}

TEST(Space, OnlyWholeFreeRangesAreRemoved) {
  Space space;
  for (const std::uint64_t at : {0u, 16u, 32u}) space.extend_at(at * kMiB, kMiB);
  const Space::Range taken = space.take(kMiB);
  const std::uint64_t place = space.offset(taken);
  EXPECT_FALSE(space.withdraw(place, kMiB)) << "it is in use";
  EXPECT_FALSE(space.withdraw(8 * kMiB, kMiB)) << "there is none";
  space.give(taken);
  const Space::Range part = space.take(kMiB / 2);
  EXPECT_FALSE(space.withdraw(space.offset(part) / kMiB * kMiB, kMiB)) << "a part is in use";
  space.give(part);
  EXPECT_TRUE(space.withdraw(16 * kMiB, kMiB));
  EXPECT_EQ(free_ranges(space), (Ranges{{0, kMiB}, {32 * kMiB, kMiB}}));
  EXPECT_TRUE(space.withdraw(32 * kMiB, kMiB));
  EXPECT_TRUE(space.withdraw(0, kMiB));
  EXPECT_EQ(space.total(), 0u);
  EXPECT_EQ(space.take(64), Space::kNone);
  space.extend_at(48 * kMiB, kMiB);
  EXPECT_EQ(space.offset(space.take(kMiB)), 48 * kMiB);
}

}  // namespace
}  // namespace shmtensor
