// The life of a block in one process and in two.
#include "arena/arena.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "support/world_fixture.hpp"

namespace shmtensor {
namespace {

using testing::Peer;
using testing::receive;
using testing::send;
using testing::Sent;
using testing::word_of;

/// Two processes' views of one arena, in one process.
class ArenaTest : public testing::WorldTest {
 protected:
  [[nodiscard]] BlockNumber allocate(std::uint64_t size = 1000) {
    const auto block = owner_->allocate(size);
    EXPECT_TRUE(block);
    return *block;
  }
  [[nodiscard]] bool is_live(BlockNumber block) const { return word_of(*owner_, block).live(); }

  Peer first_{*memory_, 0};
  Peer second_{*memory_, 70};
  const std::unique_ptr<Arena> owner_ = first_.make_arena();
  const std::unique_ptr<Arena> reader_ = second_.open_arena(owner_->segment());
};

TEST_F(ArenaTest, NewBlockIsLiveAndHeldByItsOwner) {
  EXPECT_FALSE(owner_->allocate_warm(1000));
  const BlockNumber block = allocate(1000);
  EXPECT_TRUE(owner_->owned());
  EXPECT_FALSE(reader_->owned());
  EXPECT_EQ(owner_->bytes(block, Access::read_write).size(), 1000u);
  EXPECT_EQ(reader_->bytes(block, Access::read_only).size(), 1000u);
  EXPECT_TRUE(is_live(block));
  EXPECT_EQ(owner_->segment().holders(0, block).load(), bit_of(0));
  EXPECT_TRUE(owner_->local().holds(block));
  EXPECT_TRUE(owner_->in_use());
  EXPECT_FALSE(reader_->in_use());
  owner_->release(block);
  EXPECT_FALSE(is_live(block));
  EXPECT_EQ(owner_->segment().holders(0, block).load(), 0u);
  EXPECT_FALSE(owner_->in_use());
}

TEST_F(ArenaTest, FreedBlockIsReusedWarmWithNextGeneration) {
  const BlockNumber block = allocate();
  std::byte* const data = owner_->bytes(block, Access::read_write).data();
  EXPECT_EQ(owner_->generation(block), 0u);
  owner_->release(block);
  EXPECT_EQ(owner_->allocate_warm(1000), block);
  EXPECT_EQ(owner_->generation(block), 1u);
  EXPECT_EQ(owner_->bytes(block, Access::read_write).data(), data);
}

TEST_F(ArenaTest, BothProcessesSeeTheSameBytes) {
  const BlockNumber block = allocate(100'000);
  owner_->bytes(block, Access::read_write)[99'999] = std::byte{42};
  EXPECT_TRUE(receive(*reader_, send(*owner_, block)));
  EXPECT_EQ(reader_->bytes(block, Access::read_only)[99'999], std::byte{42});
}

TEST_F(ArenaTest, MessageKeepsBlockAfterSenderReleases) {
  const BlockNumber block = allocate();
  const Sent sent = send(*owner_, block);
  owner_->release(block);
  EXPECT_TRUE(is_live(block)) << "it is in flight";
  EXPECT_NE(owner_->allocate(1000), block);
  EXPECT_TRUE(receive(*reader_, sent));
  EXPECT_TRUE(is_live(block)) << "it is held";
  reader_->release(block);
  EXPECT_FALSE(is_live(block));
  EXPECT_EQ(owner_->allocate_warm(1000), block) << "the owner was notified";
}

TEST_F(ArenaTest, StaleHandleLeavesNoTrace) {
  const BlockNumber block = allocate();
  const Sent stale = send(*owner_, block);
  ASSERT_TRUE(receive(*owner_, stale));
  owner_->release(block);
  owner_->release(block);
  EXPECT_FALSE(receive(*reader_, stale)) << "freed";
  EXPECT_EQ(owner_->allocate_warm(1000), block);
  EXPECT_FALSE(receive(*reader_, stale)) << "allocated again";
  EXPECT_FALSE(receive(*owner_, stale)) << "it holds the new one";
  EXPECT_EQ(owner_->segment().holders(1, block).load(), 0u);
  EXPECT_FALSE(reader_->in_use());
  EXPECT_EQ(LocalTable::Lock(owner_->local(), block).count(), 1u);
  owner_->release(block);
  EXPECT_FALSE(is_live(block));
}

TEST_F(ArenaTest, CancelledTicketKeepsNothing) {
  const BlockNumber block = allocate();
  const Sent sent = send(*owner_, block);
  owner_->release(block);
  owner_->cancel_send(block, sent.generation, sent.ticket);
  EXPECT_FALSE(is_live(block));
  owner_->cancel_send(block, sent.generation, sent.ticket);
  EXPECT_FALSE(receive(*reader_, sent));
}

TEST_F(ArenaTest, CancellingClaimedTicketChangesNothing) {
  const BlockNumber block = allocate();
  const Sent sent = send(*owner_, block);
  ASSERT_TRUE(receive(*reader_, sent));
  owner_->release(block);
  owner_->cancel_send(block, sent.generation, sent.ticket);
  EXPECT_TRUE(is_live(block)) << "the reader holds it";
}

TEST_F(ArenaTest, EmptyBlockIsABlock) {
  const BlockNumber block = allocate(0);
  EXPECT_TRUE(owner_->bytes(block, Access::read_write).empty());
  EXPECT_NE(owner_->bytes(block, Access::read_write).data(), nullptr);
  EXPECT_NE(allocate(0), block);
}

TEST_F(ArenaTest, StaysInUseUntilLastHolderReleases) {
  // Between the lock and `unpin_and_try_free` the segment is still read, so it must stay mapped.
  const BlockNumber block = allocate();
  ASSERT_TRUE(receive(*reader_, send(*owner_, block)));
  bool last = false;
  {
    LocalTable::Lock lock(reader_->local(), block);
    last = reader_->release(lock, block);
    EXPECT_TRUE(reader_->in_use());
  }
  EXPECT_TRUE(last);
  EXPECT_TRUE(reader_->in_use());
  reader_->unpin_and_try_free(block);
  EXPECT_FALSE(reader_->in_use());

  const NamedTicket stale{reader_->segment().number(), block, 77, {}};
  {
    LocalTable::Lock lock(reader_->local(), block);
    EXPECT_FALSE(reader_->hold(lock, stale, &memory_->transit(0)));
  }
  EXPECT_TRUE(reader_->in_use());
  reader_->unpin_and_try_free(block);
  EXPECT_FALSE(reader_->in_use());
  reader_->pin();
  EXPECT_TRUE(reader_->in_use());
  reader_->unpin();
  EXPECT_FALSE(reader_->in_use());
}

}  // namespace
}  // namespace shmtensor
