// Unused memory is freed in pieces; requests are answered in between.
#include "manager/arena_registry.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "arena/reclaim.hpp"
#include "manager/session_statistics.hpp"
#include "os/limits.hpp"
#include "os/mapping.hpp"
#include "os/memfd.hpp"
#include "os/page_reservation.hpp"
#include "support/world_fixture.hpp"

namespace shmtensor {
namespace {

using testing::Peer;

constexpr std::uint64_t kLarge = 200 * kMiB;
constexpr std::uint64_t kMost = 96 * kMiB;

class DirectoryTest : public testing::WorldTest {
 protected:
  void add(const Arena& arena) { arenas_in_session_.add(copy_of(arena), true, *memory_, {}); }

  /// An arena of slot 0, which is dead; slot 1 is alive.
  void add_orphan(const Arena& arena) {
    SlotSet dead;
    dead.add(0);
    arenas_in_session_.add(copy_of(arena), false, *memory_, dead);
  }
  [[nodiscard]] std::unique_ptr<Segment> copy_of(const Arena& arena) const {
    const Segment& segment = arena.segment();
    return Segment::open(memory_->id(), segment.number(), (*segment.file()).duplicate());
  }

  /// Runs until everything is freed; returns the number of iterations.
  int tend(const Fd& file) {
    int turns = 0;
    std::uint64_t used = file_usage(file);
    do {
      arenas_in_session_.reclaim_orphans();
      const std::uint64_t now = file_usage(file);
      EXPECT_LE(used - now, kMost) << "in turn " << turns;
      used = now;
    } while (arenas_in_session_.unfinished() && ++turns < 1000);
    return turns;
  }

  ArenaRegistry arenas_in_session_;
  Peer peer_{*memory_, 0};
  std::unique_ptr<Arena> arena_ = peer_.make_arena(Strategy::file_descriptor, {4096, kGiB});
};

TEST_F(DirectoryTest, EmptyOrphanIsReclaimedIncrementallyAndRemoved) {
  ASSERT_TRUE(arena_->allocate(kLarge));
  ASSERT_TRUE(arena_->allocate(kLarge));
  const Segment::File file = arena_->segment().file();
  const std::uint64_t before = file_usage(*file);
  add_orphan(*arena_);
  EXPECT_GE(tend(*file), 3);
  EXPECT_FALSE(arenas_in_session_.has_orphans());
  EXPECT_LE(file_usage(*file), before - 2 * kLarge);
}

TEST_F(DirectoryTest, ArenaRetiredBeforeItIsFoundIsAnOrphan) {
  arena_->segment().header().orphaned.store(1);
  add(*arena_);
  EXPECT_TRUE(arenas_in_session_.has_orphans());
  arenas_in_session_.reclaim_orphans();
  EXPECT_EQ(arenas_in_session_.find(arena_->segment().number()), nullptr);
}

TEST_F(DirectoryTest, OneSweepDoesForSeveralDeadSlots) {
  Peer other(*memory_, 65);
  const auto theirs = other.make_arena();
  const auto seen = other.open_arena(arena_->segment());
  for (const Arena* arena : {arena_.get(), theirs.get()}) add(*arena);
  const BlockNumber both = *arena_->allocate(64);
  const BlockNumber living = *arena_->allocate(64);
  const Segment& segment = arena_->segment();
  ASSERT_TRUE(testing::receive(*seen, testing::send(*arena_, both)));
  segment.holders(0, living).fetch_or(bit_of(1));
  SlotSet dead(0);
  dead.add(65);
  arenas_in_session_.sweep(*memory_, dead);
  EXPECT_FALSE(testing::word_of(*arena_, both).live());
  EXPECT_TRUE(testing::word_of(*arena_, living).live());
  EXPECT_EQ(segment.holders(0, living).load(), bit_of(1));
  EXPECT_EQ(segment.header().orphaned.load(), 1u);
  EXPECT_EQ(theirs->segment().header().orphaned.load(), 1u);
}

TEST_F(DirectoryTest, ArgumentsOfADeadSlotAreFreedAlsoWithoutAHolder) {
  add(*arena_);
  const auto sent = [&](TicketOf of) {
    const BlockNumber block = *arena_->allocate(64);
    static_cast<void>(arena_->send(block, of));
    arena_->release(block);
    return block;
  };
  const BlockNumber argument = sent(TicketOf::arguments);
  const BlockNumber message = sent(TicketOf::message);
  arenas_in_session_.sweep(*memory_, SlotSet(1));
  EXPECT_TRUE(testing::word_of(*arena_, argument).live()) << "its sender lives";
  arenas_in_session_.sweep(*memory_, SlotSet(0));
  EXPECT_FALSE(testing::word_of(*arena_, argument).live());
  EXPECT_TRUE(testing::word_of(*arena_, message).live());
}

TEST_F(DirectoryTest, GapsBetweenBlocksAreReclaimedIncrementally) {
  ASSERT_TRUE(arena_->allocate(kLarge));
  const BlockNumber kept = *arena_->allocate(5 * kMiB);
  ASSERT_TRUE(arena_->allocate(kLarge));
  const Segment& segment = arena_->segment();
  arena_->bytes(kept, Access::read_write)[4 * kMiB] = std::byte{3};
  segment.holders(0, kept).fetch_or(bit_of(1));
  const Segment::File file = segment.file();
  const std::uint64_t before = file_usage(*file);
  add_orphan(*arena_);
  EXPECT_EQ(segment.header().discards.load(), 0u);
  EXPECT_GE(tend(*file), 3);
  EXPECT_NE(segment.header().discards.load(), 0u);
  EXPECT_TRUE(arenas_in_session_.has_orphans());
  EXPECT_LE(file_usage(*file), before - 2 * kLarge);
  EXPECT_EQ(arena_->bytes(kept, Access::read_only)[4 * kMiB], std::byte{3});
  segment.holders(0, kept).store(0);
  ASSERT_EQ(try_free(segment, kept, *memory_), FreeResult::freed);
  segment.freed().mark(kept);
  EXPECT_EQ(tend(*file), 0) << "empty extents cost little";
  EXPECT_FALSE(arenas_in_session_.has_orphans());
}

// Regression: a consumer that freed a block now and then kept the manager busy all the time.
TEST_F(DirectoryTest, AnOrphanIsWalkedWhenEnoughOfItWasFreed) {
  constexpr BlockNumber kBlocks = 160;
  const Segment& segment = arena_->segment();
  std::vector<BlockNumber> blocks;
  for (BlockNumber i = 0; i < kBlocks; ++i) {
    blocks.push_back(*arena_->allocate(100 * kKiB));
    segment.holders(0, blocks.back()).fetch_or(bit_of(1));
  }
  const Segment::File file = segment.file();
  add_orphan(*arena_);
  tend(*file);
  const std::uint64_t full = file_usage(*file);
  std::size_t next = 0;
  const auto free_one = [&] {
    const BlockNumber block = blocks[next++];
    segment.holders(0, block).store(0);
    ASSERT_EQ(try_free(segment, block, *memory_), FreeResult::freed);
    segment.freed().mark(block);
    tend(*file);
  };
  while (next < kBlocks / 8 - 1) free_one();
  EXPECT_EQ(file_usage(*file), full) << "not worth a walk";
  free_one();
  const std::uint64_t walked = file_usage(*file);
  EXPECT_EQ(full - walked, kBlocks / 8 * align_up(100 * kKiB, page_size()));
  free_one();
  EXPECT_EQ(file_usage(*file), walked);
  arenas_in_session_.collect(*memory_, kUnlimited);  // a process is short of memory
  tend(*file);
  EXPECT_LT(file_usage(*file), walked);
  while (next < kBlocks) free_one();
  EXPECT_FALSE(arenas_in_session_.has_orphans());
}

TEST_F(DirectoryTest, OnlyListedObjectsOfNamesAreKept) {
  memory_->slot(0).incarnation.store(1);
  const BlockNumber kept = *arena_->allocate(kKiB);
  const BlockNumber replaced = *arena_->allocate(kKiB);
  const BlockNumber queued = *arena_->allocate(kKiB);
  const BlockNumber unread = *arena_->allocate(kKiB);
  TransitTable& table = memory_->transit(0);
  table.keep(arena_->send(kept, TicketOf::name), NameTable::mark_of(7, 1));
  table.keep(arena_->send(kept, TicketOf::name), NameTable::mark_of(8, 1));
  table.keep(arena_->send(replaced, TicketOf::name), NameTable::mark_of(7, 0));
  table.keep(arena_->send(queued, TicketOf::name), TicketGroup::kKept);
  static_cast<void>(arena_->send(unread));
  add_orphan(*arena_);
  std::vector<bool> marks(std::size_t{2} * NameTable::kNames);
  marks[NameTable::mark_of(7, 1) - TicketGroup::kFirstKept] = true;
  arenas_in_session_.cancel_all_but(*memory_, marks);
  EXPECT_TRUE(testing::word_of(*arena_, kept).live());
  EXPECT_FALSE(testing::word_of(*arena_, replaced).live());
  EXPECT_TRUE(testing::word_of(*arena_, queued).live()) << "as long as its queue";
  EXPECT_FALSE(testing::word_of(*arena_, unread).live());
  marks.assign(marks.size(), false);
  arenas_in_session_.cancel_all_but(*memory_, marks);
  EXPECT_FALSE(testing::word_of(*arena_, kept).live()) << "the other name's ticket had gone";
}

TEST_F(DirectoryTest, UnlinkedFileIsReclaimedIncrementally) {
  const Fd file = create_memfd("leftover");
  ASSERT_TRUE(reserve_pages(file, 0, kLarge));
  arenas_in_session_.empty(file.duplicate());
  EXPECT_TRUE(arenas_in_session_.unfinished());
  EXPECT_GE(tend(file), 1);
  EXPECT_EQ(file_usage(file), 0u);
}

}  // namespace
}  // namespace shmtensor
