#include "arena/reclaim.hpp"

#include <gtest/gtest.h>

#include <initializer_list>
#include <set>

#include "support/world_fixture.hpp"

namespace shmtensor {
namespace {

constexpr BlockNumber kBlock = 9;

class TryFreeTest : public testing::WorldTest {
 protected:
  void SetUp() override { make_live(kBlock, 4); }

  void make_live(BlockNumber block, Generation generation) const {
    segment_->record(block).word.store(BlockWord::live_at(generation).bits());
  }
  [[nodiscard]] BlockWord word(BlockNumber block = kBlock) const {
    return BlockWord(segment_->record(block).word.load());
  }
  void hold(SlotNumber slot, BlockNumber block = kBlock) const {
    segment_->ensure_plane(slot);
    segment_->holders(plane_of(slot), block).fetch_or(bit_of(slot));
  }
  void release(SlotNumber slot, BlockNumber block = kBlock) const {
    segment_->holders(plane_of(slot), block).fetch_and(~bit_of(slot));
  }
  [[nodiscard]] bool held_by(SlotNumber slot, BlockNumber block) const {
    return (segment_->holders(plane_of(slot), block).load() & bit_of(slot)) != 0;
  }
  Ticket issue(SlotNumber sender, Generation generation) {
    segment_->ensure_plane(sender);
    segment_->senders(plane_of(sender), kBlock).fetch_or(bit_of(sender));
    return TransitWriter(*memory_, sender).issue(1, kBlock, generation);
  }
  [[nodiscard]] bool free_it(BlockNumber block = kBlock) const {
    return try_free(*segment_, block, *memory_) == FreeResult::freed;
  }
  [[nodiscard]] std::set<BlockNumber> swept(SlotNumber dead) const {
    std::set<BlockNumber> freed;
    sweep(
        *segment_, *memory_, dead, [](BlockNumber) {},
        [&](BlockNumber block, FreeResult) { freed.insert(block); });
    return freed;
  }

  const std::unique_ptr<Segment> segment_ =
      Segment::create(memory_->id(), 1, 0, 1, Strategy::file_descriptor, testing::kSmall);
};

TEST_F(TryFreeTest, FreesUnreferencedBlockOnce) {
  EXPECT_TRUE(free_it());
  EXPECT_EQ(word().bits(), BlockWord::free_at(5).bits());
  EXPECT_FALSE(free_it());
  EXPECT_FALSE(free_it(10)) << "the block was never live";
}

TEST_F(TryFreeTest, HolderInAnyPlaneKeepsTheBlock) {
  for (const SlotNumber slot : std::initializer_list<SlotNumber>{0, 63, 64, 500, 1023}) {
    hold(slot);
    EXPECT_TRUE(has_holder(*segment_, kBlock));
    EXPECT_FALSE(has_holder(*segment_, kBlock + 1));
    EXPECT_FALSE(free_it()) << slot;
    release(slot);
  }
  EXPECT_TRUE(free_it());
}

TEST_F(TryFreeTest, LiveTicketOfAnySenderKeepsTheBlock) {
  for (const SlotNumber sender : std::initializer_list<SlotNumber>{0, 64, 1023}) {
    const Ticket ticket = issue(sender, 4);
    EXPECT_TRUE(in_flight(*segment_, kBlock, 4, *memory_));
    EXPECT_FALSE(free_it()) << sender;
    EXPECT_TRUE(memory_->transit(sender).claim(ticket, 1, kBlock, 4));
  }
  EXPECT_FALSE(in_flight(*segment_, kBlock, 4, *memory_));
  EXPECT_TRUE(free_it());
}

// Each ticket of a sender changes its table, which a release should not read without need.
TEST_F(TryFreeTest, HolderSparesTheSearchForTickets) {
  hold(0);
  segment_->senders(plane_of(0), kBlock).fetch_or(bit_of(5));
  EXPECT_FALSE(free_it());
  EXPECT_EQ(memory_->transit_if_mapped(5), nullptr);
  release(0);
  EXPECT_TRUE(free_it());
  EXPECT_NE(memory_->transit_if_mapped(5), nullptr);
}

TEST_F(TryFreeTest, TicketOfOtherGenerationDoesNotKeepTheBlock) {
  static_cast<void>(issue(0, 3));
  EXPECT_FALSE(in_flight(*segment_, kBlock, 4, *memory_));
  EXPECT_TRUE(free_it());
}

TEST_F(TryFreeTest, SweepFreesBlocksHeldOnlyByDeadProcesses) {
  make_live(1, 0);
  make_live(2, 0);
  make_live(3, 0);
  hold(70, 1);
  hold(70, 2);
  hold(71, 2);
  hold(71, 3);
  hold(6, kBlock);  // the same bit in another plane
  EXPECT_EQ(swept(70), (std::set<BlockNumber>{1}));
  EXPECT_FALSE(held_by(70, 1));
  EXPECT_FALSE(held_by(70, 2));
  EXPECT_TRUE(held_by(71, 2));
  EXPECT_TRUE(held_by(71, 3));
  EXPECT_TRUE(word(2).live());
  EXPECT_TRUE(word().live());
  EXPECT_TRUE(swept(70).empty()) << "again";
  EXPECT_EQ(swept(71), (std::set<BlockNumber>{2, 3}));
}

TEST_F(TryFreeTest, SweepKeepsUnreadMessages) {
  hold(3);
  const Ticket ticket = issue(3, 4);
  EXPECT_TRUE(swept(3).empty());
  EXPECT_FALSE(held_by(3, kBlock));
  EXPECT_TRUE(word().live());
  EXPECT_TRUE(memory_->transit(3).claim(ticket, 1, kBlock, 4));
  EXPECT_EQ(swept(3), (std::set<BlockNumber>{kBlock})) << "of a claimer that was killed";
}

// Killed between clearing its bit and the attempt to free.
TEST_F(TryFreeTest, SweepFindsUnreferencedBlocks) {
  EXPECT_EQ(swept(kNoSlot), (std::set<BlockNumber>{kBlock}));
}

// The bit of a process that tries a stale handle: it clears the bit, and does not drain the block.
TEST_F(TryFreeTest, SweepFindsDrainingBlocksWithHolderBit) {
  segment_->record(kBlock).word.store(word().draining().bits());
  hold(6);
  EXPECT_EQ(swept(kNoSlot), (std::set<BlockNumber>{kBlock}));
}

TEST_F(TryFreeTest, SweepOfEmptySetClearsNothing) {
  for (const SlotNumber slot : std::initializer_list<SlotNumber>{0, 63, 1023}) hold(slot);
  EXPECT_TRUE(swept(kNoSlot).empty());
  for (const SlotNumber slot : std::initializer_list<SlotNumber>{0, 63, 1023})
    EXPECT_TRUE(held_by(slot, kBlock));
  EXPECT_TRUE(swept(64).empty()) << "of a plane that does not exist";
}

}  // namespace
}  // namespace shmtensor
