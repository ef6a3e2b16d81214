// Exhausted memory: the error names the resource, and nothing stays allocated.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <new>
#include <set>
#include <utility>
#include <vector>

#include "arena/allocator_fixture.hpp"
#include "arena/shortage.hpp"
#include "base/error.hpp"
#include "os/shm_object.hpp"
#include "support/child.hpp"
#include "support/private_shm.hpp"
#include "support/scarce_heap.hpp"

namespace shmtensor {
namespace {

using testing::AllocatorTest;
using testing::in_child;

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(AllocatorTest, ExhaustedBudgetIsNamed) {
  budget_.set_limit(5 * kMiB);
  EXPECT_FALSE(take(8 * kMiB));
  EXPECT_TRUE(mentions(allocator_->short_of(), "0 MiB of the 5 MiB")) << allocator_->short_of();
  EXPECT_TRUE(mentions(allocator_->short_of(), "SHMTENSOR_MAX_BYTES"));
  EXPECT_EQ(budget_.reserved(), 0u);

  ASSERT_TRUE(take(kMiB));
  EXPECT_TRUE(allocator_->short_of().empty());
  EXPECT_FALSE(take(4 * kMiB));
  EXPECT_TRUE(mentions(allocator_->short_of(), "2 MiB of the 5 MiB")) << allocator_->short_of();
  EXPECT_TRUE(take(3 * kMiB)) << "the second half of the existing 2 MiB is free";
  budget_.set_limit(kUnlimited);
  EXPECT_TRUE(take(4 * kMiB));
}

TEST_F(AllocatorTest, GrowsByNeededSizeIfDoublingFails) {
  budget_.set_limit(10 * kMiB);
  ASSERT_TRUE(take(7 * kMiB));
  EXPECT_EQ(data_->reserved(), 8 * kMiB);
  ASSERT_TRUE(take(kMiB)) << "from the remaining memory";
  ASSERT_TRUE(take(kMiB)) << "8 MiB more would be over the limit, 2 MiB are not";
  EXPECT_EQ(data_->reserved(), 10 * kMiB);
}

TEST_F(AllocatorTest, ShortBudgetLeavesTrimmedExtentsUnbacked) {
  const auto made = take(7 * kMiB);
  give(made->block);
  trim(0);
  budget_.set_limit(kMiB);
  EXPECT_FALSE(take(64));
  EXPECT_EQ(data_->reserved(), 0u);
  budget_.set_limit(2 * kMiB);
  EXPECT_EQ(take(64)->offset, made->offset);
}

// Neither does what the arena reserved for an allocation that failed at its last step.
TEST_F(AllocatorTest, ExhaustedHeapLosesNothing) {
  std::vector<BlockNumber> blocks;
  int failures = 0;
  for (const std::uint64_t size : {std::uint64_t{64}, 3 * kMiB, std::uint64_t{200}, 9 * kMiB}) {
    std::optional<NewBlock> made;
    for (std::uint64_t left = 0; !made; ++left) {
      try {
        const testing::ScarceHeap heap(left);
        made = take(size);
      } catch (const std::bad_alloc&) {
        ++failures;
      }
      ASSERT_EQ(budget_.reserved(), data_->reserved());
    }
    segment_->record(made->block).word.store(BlockWord::live_at(0).bits());
    blocks.push_back(made->block);
  }
  EXPECT_GT(failures, 4);
  EXPECT_EQ(data_->reserved(), segment_->header().committed.load());
  EXPECT_EQ(std::set(blocks.begin(), blocks.end()).size(), blocks.size());
  const std::uint64_t all = data_->reserved();
  for (const BlockNumber block : blocks) give(block);
  EXPECT_TRUE(take(all)) << "all is one range again";
  EXPECT_EQ(data_->reserved(), all);
}

TEST_F(AllocatorTest, FileSizeLimitIsNamed) {
  in_child([&] {
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = testing::kSmall.data() + 3 * kMiB;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    EXPECT_FALSE(take(4 * kMiB));
    EXPECT_TRUE(mentions(allocator_->short_of(), "RLIMIT_FSIZE"));
    EXPECT_EQ(budget_.reserved(), 0u);
    EXPECT_EQ(data_->reserved(), 0u);
    EXPECT_TRUE(take(kMiB)) << "a block that fits is allocated";
  });
}

TEST_F(AllocatorTest, RequestBeyondMachineMemoryIsNamed) {
  segment_ = Segment::create(memory_->id(), 2, 0, 1, Strategy::file_descriptor,
                             {4096, std::uint64_t{1} << 46});
  data_ = std::make_unique<HostDataSegment>(*segment_, &budget_);
  allocator_ = std::make_unique<Allocator>(*segment_, *data_);
  EXPECT_FALSE(take(std::uint64_t{1} << 45));
  EXPECT_TRUE(mentions(allocator_->short_of(), "are available")) << allocator_->short_of();
  EXPECT_EQ(budget_.reserved(), 0u);
}

TEST(Shortage, AdvisesToRaiseOnlyALimit) {
  const AvailableMemory machine{kMiB, "MemAvailable of this machine"};
  const AvailableMemory group{kMiB, "memory cgroup /sys/fs/cgroup/a"};
  EXPECT_TRUE(shortage_of(2 * kMiB, machine).ends_with("; free memory"));
  EXPECT_TRUE(shortage_of(2 * kMiB, group).ends_with("; free memory or raise that limit"));
}

TEST_F(AllocatorTest, ClosedDescriptorCostsNoBudget) {
  ASSERT_EQ(::close((*segment_->file()).get()), 0);
  EXPECT_THROW(static_cast<void>(take(kMiB)), SessionError);
  EXPECT_EQ(budget_.reserved(), 0u);
  EXPECT_EQ(data_->reserved(), 0u);
}

class NamedAllocatorTest : public AllocatorTest {
 protected:
  Strategy strategy() const override { return Strategy::file_system; }
  void SetUp() override {}  // in the child
};

TEST_F(NamedAllocatorTest, FullDevShmIsNamed) {
  if (!testing::private_shm_works()) GTEST_SKIP() << "mount namespaces are not available";
  in_child([&] {
    ASSERT_TRUE(testing::enter_private_shm(6 * kMiB));
    AllocatorTest::SetUp();
    EXPECT_FALSE(take(16 * kMiB));
    EXPECT_TRUE(mentions(allocator_->short_of(), "free of 6 MiB")) << allocator_->short_of();
    EXPECT_EQ(budget_.reserved(), 0u);
    const auto made = take(3 * kMiB);
    ASSERT_TRUE(made) << "the failed call leaves nothing allocated";
    for (std::uint64_t i = 0; i < 3 * kMiB; i += page_size()) {
      at(*made)[i] = std::byte{1};
    }
  });
}

// A named object is opened temporarily, which fails while the process is at its limit.
TEST_F(NamedAllocatorTest, ExhaustedDescriptorsCostNothing) {
  in_child([&] {
    AllocatorTest::SetUp();
    const auto made = take(3 * kMiB);
    give(made->block);
    trim(0);
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    const rlim_t before = std::exchange(limit.rlim_cur, 3);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_THROW(static_cast<void>(take(3 * kMiB)), OsError);
    EXPECT_THROW(static_cast<void>(take(30 * kMiB)), OsError);
    EXPECT_EQ(budget_.reserved(), 0u);
    limit.rlim_cur = before;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    const auto again = take(3 * kMiB);
    EXPECT_EQ(again->offset, made->offset) << "its range is free again";
    give(again->block);
    limit.rlim_cur = 3;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    trim(0);
    EXPECT_TRUE(take_warm(3 * kMiB));
    unlink_shm(arena_name(memory_->id(), 1));
  });
}

TEST(Budget, NeverGoesOverItsLimit) {
  Budget budget;
  EXPECT_EQ(budget.limit(), kUnlimited);
  EXPECT_TRUE(budget.try_reserve(kUnlimited));
  budget.release(kUnlimited);
  budget.set_limit(100);
  EXPECT_TRUE(budget.try_reserve(60));
  EXPECT_FALSE(budget.try_reserve(41));
  EXPECT_FALSE(budget.try_reserve(kUnlimited)) << "the sum would be 59";
  EXPECT_TRUE(budget.try_reserve(40));
  EXPECT_EQ(budget.reserved(), 100u);
  budget.set_limit(10);
  EXPECT_FALSE(budget.try_reserve(1)) << "a limit below the memory in use";
  budget.release(95);
  EXPECT_TRUE(budget.try_reserve(5));
  budget.reset();
  EXPECT_EQ(budget.reserved(), 0u);
}

}  // namespace
}  // namespace shmtensor
