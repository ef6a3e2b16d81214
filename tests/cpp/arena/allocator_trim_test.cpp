// Pages are returned to the system, and reserved again when needed.
#include <gtest/gtest.h>
#include <unistd.h>

#include "arena/allocator_fixture.hpp"
#include "os/memfd.hpp"

namespace shmtensor {
namespace {

using testing::AllocatorTest;

TEST_F(AllocatorTest, TrimReleasesPagesAndAllocationCommitsThemAgain) {
  const auto block = take(6 * kMiB);
  *at(*block) = std::byte{77};
  const std::uint64_t full = usage();
  give(block->block);
  EXPECT_EQ(data_->reserved(), 8 * kMiB);
  EXPECT_EQ(segment_->header().discards.load(), 0u);
  trim(0);
  EXPECT_NE(segment_->header().discards.load(), 0u);
  EXPECT_EQ(data_->reserved(), 0u);
  EXPECT_EQ(budget_.reserved(), 0u);
  EXPECT_EQ(usage(), full - 8 * kMiB);

  EXPECT_FALSE(take_warm(6 * kMiB)) << "that would need a system call";
  EXPECT_FALSE(take_warm(64));
  const auto again = take(3 * kMiB);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->offset, block->offset);
  EXPECT_EQ(data_->reserved(), 4 * kMiB) << "as many extents as it needs";
  EXPECT_EQ(usage(), full - 4 * kMiB);
  EXPECT_EQ(*at(*again), std::byte{0});
  EXPECT_EQ(segment_->header().committed.load(), 8 * kMiB) << "the address range is the same";
}

TEST_F(AllocatorTest, TrimKeepsExtentsWithLiveBlocks) {
  std::vector<NewBlock> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(*take(kExtent - page_size()));
  const std::uint64_t before = data_->reserved();
  for (const int i : {0, 1, 2, 5, 6}) give(blocks[static_cast<std::size_t>(i)].block);
  for (const int i : {3, 4, 7}) *at(blocks[static_cast<std::size_t>(i)]) = std::byte{9};
  trim(0);
  EXPECT_LT(data_->reserved(), before);
  for (const int i : {3, 4, 7}) {
    EXPECT_EQ(*at(blocks[static_cast<std::size_t>(i)]), std::byte{9}) << i;
  }
  EXPECT_EQ(budget_.reserved(), data_->reserved());
}

TEST_F(AllocatorTest, TrimKeepsRecentlyUsedExtents) {
  give(take(kMiB)->block);
  trim(60'000);
  EXPECT_EQ(data_->reserved(), kExtent);
  EXPECT_TRUE(take_warm(kMiB));
}

TEST_F(AllocatorTest, TrimRespectsQuotaAndReportsRemainder) {
  const auto first = take(3 * kExtent - page_size());
  const auto between = take(page_size());
  const auto second = take(4 * kExtent);
  give(first->block);
  give(second->block);
  const std::uint64_t full = usage();
  const std::uint64_t reserved = data_->reserved();
  std::uint64_t given = 0;
  while (trim(0, 2 * kExtent)) {
    given += 2 * kExtent;
    ASSERT_EQ(data_->reserved(), reserved - given);
    ASSERT_EQ(usage(), full - given);
  }
  EXPECT_GE(given, 4 * kExtent) << "three times";
  const std::uint64_t left = data_->reserved();
  EXPECT_FALSE(trim(0));
  EXPECT_EQ(data_->reserved(), left) << "the last step had the rest";
  EXPECT_EQ(left, kExtent) << "the part between them is live";
  give(between->block);
}

TEST_F(AllocatorTest, BackingIsCompleteAcrossMixedExtents) {
  const auto a = take(kExtent - page_size());
  const auto b = take(kExtent);
  const auto c = take(kExtent);
  give(a->block);
  give(c->block);
  trim(0);
  give(b->block);
  const auto all = take(3 * kExtent - page_size());
  ASSERT_TRUE(all);
  for (std::uint64_t i = 0; i < 3 * kExtent - page_size(); i += page_size()) {
    at(*all)[i] = std::byte{1};
  }
  EXPECT_EQ(budget_.reserved(), data_->reserved());
}

// Some releases call trim, and a release may not fail: a daemon may have closed all descriptors,
// and a process may be at its limit when a named object must be opened.
TEST_F(AllocatorTest, TrimWithoutDescriptorChangesNothing) {
  give(take(kMiB)->block);
  ASSERT_EQ(::close((*segment_->file()).get()), 0);
  EXPECT_NO_THROW(trim(0));
  EXPECT_EQ(data_->reserved(), kExtent);
  EXPECT_EQ(budget_.reserved(), kExtent);
  EXPECT_TRUE(take_warm(kMiB)) << "mapped memory stays usable";
}

}  // namespace
}  // namespace shmtensor
