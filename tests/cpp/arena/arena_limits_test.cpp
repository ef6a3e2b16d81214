// Arenas that are full, short of memory, damaged, or not notified.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <set>
#include <thread>

#include "arena/arena.hpp"
#include "base/error.hpp"
#include "os/page_reservation.hpp"
#include "support/child.hpp"
#include "support/world_fixture.hpp"

namespace shmtensor {
namespace {

using testing::kSmall;
using testing::Peer;
using testing::word_of;

class ArenaLimits : public testing::WorldTest {
 protected:
  Peer peer_{*memory_, 0};
  const std::unique_ptr<Arena> arena_ = peer_.make_arena();
};

TEST_F(ArenaLimits, FullArenaIsNotAnError) {
  EXPECT_EQ(arena_->allocate(kSmall.data_reserve), std::nullopt);
  std::set<BlockNumber> blocks;
  while (const auto block = arena_->allocate(64)) blocks.insert(*block);
  EXPECT_EQ(blocks.size(), kSmall.max_blocks);
  for (const BlockNumber block : blocks) arena_->release(block);
  EXPECT_TRUE(arena_->allocate(64));
}

TEST_F(ArenaLimits, OutOfMemoryErrorNamesTheResource) {
  peer_.budget().set_limit(4 * kMiB);
  const auto block = arena_->allocate(kMiB);
  try {
    static_cast<void>(arena_->allocate(8 * kMiB));
    ADD_FAILURE() << "8 MiB fit into 4";
  } catch (const OutOfMemory& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("cannot share 8 MiB"), std::string::npos) << text;
    EXPECT_NE(text.find("4 MiB"), std::string::npos) << text;
  }
  EXPECT_EQ(arena_->reserved(), peer_.budget().reserved());
  arena_->release(*block);
  EXPECT_TRUE(arena_->allocate(kMiB));
}

// The sender's bit made every process search for tickets, on a page that could not be reserved.
TEST_F(ArenaLimits, FailedSendLeavesNoTicket) {
  testing::in_child([this] {
    Peer sender(*memory_, 3);
    const auto arena = sender.make_arena();
    const auto block = arena->allocate(64);
    static_cast<void>(sender.member().writer());
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = kMiB;  // the table is stored after it
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    const std::uint64_t before = file_usage(memory_->file());
    EXPECT_THROW(static_cast<void>(arena->send(*block)), OutOfMemory);
    arena->release(*block);
    EXPECT_FALSE(word_of(*arena, *block).live());
    EXPECT_EQ(file_usage(memory_->file()), before);
  });
}

TEST_F(ArenaLimits, IdlePagesAreReclaimedForNewBlocks) {
  peer_.budget().set_limit(10 * kMiB);
  const auto idle = arena_->allocate(5 * kMiB);
  ASSERT_TRUE(arena_->allocate(kMiB - page_size()));  // stored after it
  arena_->release(*idle);
  EXPECT_EQ(arena_->reserved(), 6 * kMiB);
  EXPECT_TRUE(arena_->allocate(7 * kMiB)) << "8 MiB more fit when 4 idle ones are given back";
  EXPECT_EQ(peer_.budget().reserved(), 10 * kMiB);
}

// Releasing a GiB in one step delayed an allocation of 4 KiB for 0.3 s.
TEST_F(ArenaLimits, IdlePagesAreReleasedIncrementally) {
  constexpr std::uint64_t kStep = 4 * kMiB;
  constexpr std::uint64_t kIdle = 100;  // milliseconds
  arena_->release(*arena_->allocate(32 * kMiB));
  const std::uint64_t full = arena_->reserved();
  ASSERT_GE(full, 32 * kMiB);
  std::this_thread::sleep_for(std::chrono::milliseconds(kIdle + 10));
  std::uint64_t before = full;
  for (int i = 0; i < 5000 && before > kStep; ++i) {
    const auto block = arena_->allocate_warm(64);
    arena_->release(block ? *block : *arena_->allocate(64));
    EXPECT_EQ(arena_->reserved(), before) << "neither of them waits for the kernel";
    if (arena_->trim_is_due()) arena_->trim_in_passing(kIdle);
    EXPECT_LE(before - arena_->reserved(), kStep);
    before = arena_->reserved();
    if (i > 64) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_LE(before, kStep) << "the operations freed everything that is not in use";
}

// Freed by a process that was killed before it notified the owner.
TEST_F(ArenaLimits, SweepFindsFreedBlocksWithoutNotification) {
  const BlockNumber block = *arena_->allocate(1000);
  arena_->segment().holders(0, block).store(0);
  arena_->segment().record(block).word.store(word_of(*arena_, block).freed().bits());
  const BlockNumber other = *arena_->allocate_warm(1000);
  EXPECT_NE(other, block);
  memory_->header().deaths.fetch_add(1);
  EXPECT_EQ(arena_->allocate_warm(1000), block);
}

TEST_F(ArenaLimits, AllocationMissFindsFreedBlocksWithoutNotification) {
  const BlockNumber block = *arena_->allocate(60 * kMiB);
  arena_->segment().holders(0, block).store(0);
  arena_->segment().record(block).word.store(word_of(*arena_, block).freed().bits());
  EXPECT_EQ(arena_->allocate_warm(60 * kMiB), std::nullopt);
  EXPECT_TRUE(arena_->allocate(60 * kMiB));
}

TEST_F(ArenaLimits, CollectReleasesPages) {
  arena_->release(*arena_->allocate(5 * kMiB));
  EXPECT_EQ(arena_->reserved(), 6 * kMiB);
  arena_->collect(60'000);
  EXPECT_EQ(arena_->reserved(), 6 * kMiB) << "they were in use until a moment ago";
  arena_->collect(0);
  EXPECT_EQ(arena_->reserved(), 0u);
  EXPECT_EQ(Peer(*memory_, 1).open_arena(arena_->segment())->reserved(), 0u);
}

TEST_F(ArenaLimits, OutOfRangeRecordIsAnError) {
  const BlockNumber block = *arena_->allocate(1000);
  BlockRecord& record = arena_->segment().record(block);
  const std::uint64_t committed = arena_->segment().header().committed.load();
  EXPECT_NO_THROW(static_cast<void>(arena_->bytes(block, Access::read_only)));
  for (const std::uint64_t offset : {committed - 999, committed, ~std::uint64_t{0}}) {
    record.offset.store(offset);
    EXPECT_THROW(static_cast<void>(arena_->bytes(block, Access::read_only)), SessionError);
  }
  record.offset.store(committed - 1000);
  EXPECT_NO_THROW(static_cast<void>(arena_->bytes(block, Access::read_only)));
  record.size.store(~std::uint64_t{0});
  EXPECT_THROW(static_cast<void>(arena_->bytes(block, Access::read_only)), SessionError);
  // A header that claims more than is mapped is not trusted.
  arena_->segment().header().committed.store(~std::uint64_t{0});
  record.size.store(1000);
  record.offset.store(kSmall.data_reserve);
  EXPECT_THROW(static_cast<void>(arena_->bytes(block, Access::read_only)), SessionError);
}

}  // namespace
}  // namespace shmtensor
