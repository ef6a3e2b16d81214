// The steps of the fork handlers on an arena.
#include <gtest/gtest.h>

#include "arena/arena.hpp"
#include "base/error.hpp"
#include "support/child.hpp"
#include "support/shared.hpp"
#include "support/world_fixture.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::Peer;
using testing::receive;
using testing::send;
using testing::word_of;

constexpr SlotNumber kChild = 130;

class ArenaFork : public testing::WorldTest {
 protected:
  [[nodiscard]] bool child_holds(BlockNumber block) const {
    const Segment& segment = arena_->segment();
    return segment.has_plane(kChild) &&
           (segment.holders(plane_of(kChild), block).load() & bit_of(kChild)) != 0;
  }

  Peer peer_{*memory_, 0};
  const std::unique_ptr<Arena> arena_ = peer_.make_arena();
};

TEST_F(ArenaFork, ChildHoldsExactlyWhatParentHeld) {
  const BlockNumber held = *arena_->allocate(64);
  const BlockNumber sent = *arena_->allocate(64);
  const BlockNumber freed = *arena_->allocate(64);
  static_cast<void>(send(*arena_, sent));
  arena_->release(sent);
  arena_->release(freed);
  const std::uint64_t before = word_of(*arena_, held).bits();
  arena_->hold_for_child(kChild);
  EXPECT_TRUE(child_holds(held));
  EXPECT_FALSE(child_holds(sent));
  EXPECT_FALSE(child_holds(freed));
  EXPECT_NE(word_of(*arena_, held).bits(), before) << "the epoch has changed for a freeing process";
  arena_->release(held);
  EXPECT_TRUE(word_of(*arena_, held).live()) << "only the child holds it";
}

// The child has the arena mapped and does not attach it, which would have created its plane. It
// received a block and set its bit outside the announced planes; the block was freed and reused
// while the child held it, in sessions with more than 64 slots in use.
TEST_F(ArenaFork, ChildBitsAreVisibleInPlaneUnusedByParent) {
  const BlockNumber block = *arena_->allocate(64);
  const auto mapped = Peer(*memory_, 1).open_arena(arena_->segment());
  mapped->hold_for_child(kChild);
  EXPECT_TRUE(arena_->segment().has_plane(kChild));
  arena_->segment().holders(plane_of(kChild), block).fetch_or(bit_of(kChild));
  arena_->release(block);
  EXPECT_TRUE(word_of(*arena_, block).live());
}

TEST_F(ArenaFork, ChildContinuesUnderItsOwnSlot) {
  const BlockNumber block = *arena_->allocate(64);
  const BlockNumber twice = *arena_->allocate(64);
  EXPECT_TRUE(receive(*arena_, send(*arena_, twice)));
  testing::Shared<testing::Sent> reply;
  arena_->lock_for_fork();
  peer_.member().lock_for_fork();
  LocalTable::stop_locking();
  arena_->wait_for_fork();
  arena_->hold_for_child(kChild);
  Child child([&] {
    peer_.member().become(kChild);
    arena_->disown();
    arena_->unlock_after_fork();
    LocalTable::resume_locking();
    EXPECT_FALSE(arena_->owned());
    EXPECT_TRUE(arena_->in_use());
    *reply = send(*arena_, block);
    EXPECT_EQ(reply->ticket.sender, kChild);
    arena_->release(block);
    EXPECT_FALSE(child_holds(block));
    arena_->release(twice);
    EXPECT_TRUE(child_holds(twice)) << "two objects were inherited";
    arena_->release(twice);
    EXPECT_FALSE(child_holds(twice));
    EXPECT_FALSE(arena_->in_use());
  });
  peer_.member().unlock_after_fork();
  arena_->unlock_after_fork();
  LocalTable::resume_locking();
  arena_->release(block);
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(word_of(*arena_, block).live()) << "the child's message is in flight";
  EXPECT_TRUE(receive(*arena_, *reply));
  arena_->release(block);
  EXPECT_FALSE(word_of(*arena_, block).live());
  EXPECT_TRUE(word_of(*arena_, twice).live()) << "the child does not hold the parent's objects";
}

// A child without a slot uses its parent's bits, and may not clear them.
TEST_F(ArenaFork, DetachedChildReleasesNothing) {
  const BlockNumber block = *arena_->allocate(64);
  testing::in_child([&] {
    peer_.member().become(kNoSlot);
    arena_->disown();
    EXPECT_FALSE(peer_.member().has_slot());
    arena_->release(block);
    arena_->release(block);
  });
  EXPECT_TRUE(word_of(*arena_, block).live());
  EXPECT_EQ(arena_->segment().holders(0, block).load(), bit_of(0));
}

// The child has no slot number; the bit of the value for that would be gigabytes past the table.
TEST_F(ArenaFork, DetachedChildNeitherSendsNorReceives) {
  const BlockNumber block = *arena_->allocate(64);
  const testing::Sent before = send(*arena_, block);
  testing::in_child([&] {
    peer_.member().become(kNoSlot);
    arena_->disown();
    EXPECT_THROW(static_cast<void>(arena_->send(block)), SessionError);
    EXPECT_FALSE(receive(*arena_, before));
    EXPECT_FALSE(receive(*arena_, {block + 1, 0, {}}));
  });
  EXPECT_TRUE(receive(*arena_, before)) << "the message is still there";
}

// It has its parent's bookkeeping and bits, since no fork handler removed them.
TEST_F(ArenaFork, RawCopyChangesNothing) {
  const BlockNumber block = *arena_->allocate(64);
  const testing::Sent sent = send(*arena_, block);
  const std::uint64_t word = word_of(*arena_, block).bits();
  testing::in_child([&] {
    mark_process();
    testing::in_child([&] {
      EXPECT_FALSE(peer_.member().has_slot());
      arena_->cancel_send(sent.block, sent.generation, sent.ticket);
      arena_->release(block);
      EXPECT_THROW(static_cast<void>(arena_->allocate_warm(64)), SessionError);
      EXPECT_THROW(static_cast<void>(arena_->allocate(64)), SessionError);
      EXPECT_THROW(static_cast<void>(arena_->send(block)), SessionError);
      EXPECT_THROW(arena_->collect(0), SessionError);
      EXPECT_FALSE(receive(*arena_, sent));
    });
    EXPECT_TRUE(peer_.member().has_slot()) << "its parent continues";
    EXPECT_TRUE(arena_->allocate_warm(64));
  });
  EXPECT_EQ(word_of(*arena_, block).bits(), word);
  EXPECT_EQ(arena_->segment().holders(0, block).load(), bit_of(0));
  EXPECT_TRUE(receive(*arena_, sent)) << "the message is still there";
}

}  // namespace
}  // namespace shmtensor
