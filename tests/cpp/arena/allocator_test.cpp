#include "arena/allocator.hpp"

#include <gtest/gtest.h>

#include <set>

#include "arena/allocator_fixture.hpp"

namespace shmtensor {
namespace {

using testing::AllocatorTest;
using testing::kSmall;

TEST_F(AllocatorTest, StartsEmptyAndGrowsByExtents) {
  EXPECT_FALSE(take_warm(1));
  EXPECT_EQ(data_->reserved(), 0u);
  const auto piece = take(100);
  ASSERT_TRUE(piece);
  EXPECT_EQ(piece->block, 0u);
  EXPECT_EQ(piece->offset, 0u);
  EXPECT_EQ(data_->reserved(), kExtent);
  EXPECT_EQ(budget_.reserved(), kExtent);
  EXPECT_EQ(segment_->header().committed.load(), kExtent);
  EXPECT_EQ(file_size(*segment_->file()), kSmall.data() + kExtent);
}

TEST_F(AllocatorTest, PacksSmallBlocksAndPageAlignsLargeOnes) {
  const auto a = take(100);
  const auto b = take(100);
  const auto large = take(100'000);
  EXPECT_EQ(b->offset, a->offset + 128);
  EXPECT_EQ(large->offset % page_size(), 0u);
  const auto next = take(64 * kKiB);
  EXPECT_EQ(next->offset, large->offset + align_up(100'000, page_size()));
}

TEST_F(AllocatorTest, FreedBlocksAreReusedWarm) {
  const auto first = take(10'000);
  *at(*first) = std::byte{77};
  const std::uint64_t before = usage();
  give(first->block);
  const auto again = take_warm(10'000);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->block, first->block);
  EXPECT_EQ(again->offset, first->offset);
  EXPECT_EQ(*at(*again), std::byte{77}) << "the page was recycled";
  EXPECT_EQ(usage(), before);
}

TEST_F(AllocatorTest, WarmAllocationNeverGrows) {
  ASSERT_TRUE(take(100));
  EXPECT_FALSE(take_warm(kExtent));
  EXPECT_EQ(segment_->header().committed.load(), kExtent);
  EXPECT_TRUE(take_warm(kExtent / 2));
}

TEST_F(AllocatorTest, BlockNumbersAreReused) {
  std::set<BlockNumber> first;
  std::set<BlockNumber> second;
  for (int i = 0; i < 100; ++i) first.insert(take(64)->block);
  for (const BlockNumber block : first) give(block);
  for (int i = 0; i < 100; ++i) second.insert(take_warm(64)->block);
  EXPECT_EQ(first.size(), 100u);
  EXPECT_EQ(second, first);
}

TEST_F(AllocatorTest, ReclaimIsIdempotent) {
  const auto a = take(64);
  give(a->block);
  allocator_->reclaim(a->block);
  const auto b = take(64);
  const auto c = take(64);
  EXPECT_NE(b->block, c->block);
  EXPECT_NE(b->offset, c->offset);
}

TEST_F(AllocatorTest, LiveBlockIsNotReclaimed) {
  const auto a = take(64);
  allocator_->reclaim(a->block);
  EXPECT_NE(take(64)->offset, a->offset);
  // The same if the block was freed and allocated again before the notification.
  give(a->block);
  EXPECT_EQ(take(64)->block, a->block);
  allocator_->reclaim(a->block);
  EXPECT_NE(take(64)->block, a->block);
}

TEST_F(AllocatorTest, UnallocatedNumbersAreNotReclaimed) {
  allocator_->reclaim(0);
  allocator_->reclaim(~BlockNumber{0});
  EXPECT_EQ(take(64)->block, 0u);
  allocator_->reclaim(1);
  const auto next = take(64);
  allocator_->reclaim(1);
  EXPECT_NE(take(64)->block, next->block);
}

TEST_F(AllocatorTest, NeighboursShareNoCacheLine) {
  std::set<BlockNumber> lines;  // of 8 words of holders; records are larger
  for (int i = 0; i < 128; ++i) EXPECT_TRUE(lines.insert(take(64)->block / 8).second) << i;
}

TEST_F(AllocatorTest, NumberOfLastGenerationIsRetired) {
  const auto a = take(64);
  segment_->record(a->block).word.store(BlockWord::live_at(BlockWord::kLastGeneration).bits());
  give(a->block);
  const auto b = take(64);
  EXPECT_NE(b->block, a->block);
  EXPECT_EQ(b->offset, a->offset) << "its bytes are reused";
}

TEST_F(AllocatorTest, VisitsAllocatedBlocks) {
  const auto a = take(64);
  const auto b = take(64);
  const auto c = take(64);
  give(b->block);
  std::set<BlockNumber> given;
  allocator_->for_each_allocated([&](BlockNumber block) { given.insert(block); });
  EXPECT_EQ(given, (std::set<BlockNumber>{a->block, c->block}));
}

TEST_F(AllocatorTest, NumbersGrowUntilTheTableIsFull) {
  std::set<BlockNumber> all;
  for (std::uint32_t i = 0; i < kSmall.max_blocks; ++i) all.insert(take(64)->block);
  EXPECT_EQ(all.size(), kSmall.max_blocks);
  EXPECT_EQ(*all.rbegin(), kSmall.max_blocks - 1);
  EXPECT_EQ(segment_->capacity(), kSmall.max_blocks);
  EXPECT_FALSE(take_warm(64));
  EXPECT_FALSE(take(64));
  EXPECT_TRUE(allocator_->short_of().empty()) << "a full arena is not a lack of memory";
  give(17);
  EXPECT_EQ(take_warm(64)->block, 17u);
}

TEST_F(AllocatorTest, FullDataSegmentIsNotOutOfMemory) {
  EXPECT_FALSE(take(kSmall.data_reserve));  // too large with its page of slack
  const auto most = take(kSmall.data_reserve - page_size());
  ASSERT_TRUE(most);
  EXPECT_FALSE(take(2 * page_size()));
  EXPECT_TRUE(allocator_->short_of().empty());
  EXPECT_EQ(data_->reserved(), kSmall.data_reserve);
  give(most->block);
  EXPECT_TRUE(take_warm(kSmall.data_reserve - page_size()));
}

}  // namespace
}  // namespace shmtensor
