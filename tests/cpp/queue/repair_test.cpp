// What a killed producer or consumer can leave behind, and the sweep that follows.
#include "queue/repair.hpp"

#include <gtest/gtest.h>

#include "queue/owner_lock.hpp"
#include "queue/wait_flag.hpp"
#include "support/child.hpp"
#include "support/queue_world.hpp"
#include "support/shared.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::live_tickets;
using testing::Peer;
using testing::used_blocks;

/// A process in slot 1 uses the queue and is killed. What it leaves is swept once, or, with the
/// parameter, several times, as by managers that are killed before they clear its bits.
class QueueRepair : public testing::QueueWorld, public ::testing::WithParamInterface<bool> {
 protected:
  QueueRepair() { share(*view_, queue_); }

  void lock(QueueEnd& end) { ASSERT_TRUE(OwnerLock(end.lock).try_lock(kDead)); }
  [[nodiscard]] QueueEnd& tail() const { return header().tail; }
  [[nodiscard]] QueueEnd& head() const { return header().head; }
  /// A block of the owner that only the doomed process holds.
  BlockNumber doomed_block() {
    const BlockNumber block = *arena_->allocate(100);
    share(*view_, block);
    arena_->release(block);
    return block;
  }
  [[nodiscard]] std::atomic<std::uint64_t>& holders(BlockNumber block) const {
    return arena_->segment().holders(0, block);
  }
  void die() {
    if (GetParam()) {
      const std::uint64_t held = holders(queue_).load();
      for (int i = 0; i < 2; ++i) {
        sweep(kDead);
        holders(queue_).store(held);
      }
    }
    sweep(kDead);
    EXPECT_GE(OwnerLock(tail().lock).owner(), kMaxSlots);
    EXPECT_GE(OwnerLock(head().lock).owner(), kMaxSlots);
    EXPECT_EQ(holders(queue_).load(), 1u);
    EXPECT_TRUE(is_live(queue_));
  }
  /// The owner takes a message.
  bool take_next() {
    const std::uint64_t count = head().count.load();
    const auto named = header().first_ring.at(count % QueueHeader::kFirstRing).ticket.read();
    const bool taken = named && take(*arena_, *named);
    head().count.store(count + 1);
    return taken;
  }
  /// Nothing is left when the owner releases the queue.
  void expect_nothing_left() {
    arena_->release(queue_);
    registry_.drain(*memory_, arena_->segment().number(), queue_);
    EXPECT_EQ(used_blocks(arena_->segment()), 0u);
    EXPECT_EQ(live_tickets(*memory_), 0u);
  }

  Peer doomed_{*memory_, kDead};
  const std::unique_ptr<Arena> view_ = doomed_.open_arena(arena_->segment());
};

INSTANTIATE_TEST_SUITE_P(Repeated, QueueRepair, ::testing::Bool());

TEST_P(QueueRepair, OfAProducerThatOnlyLocked) {
  lock(tail());
  die();
  EXPECT_EQ(tail().count.load(), 0u);
  expect_nothing_left();
}

TEST_P(QueueRepair, OfATicketThatWasNamedAndNotIssued) {
  const BlockNumber block = doomed_block();
  lock(tail());
  // The next ticket of the process: no group has that serial yet.
  header().first_ring[0].ticket.write(
      {.arena = arena_->segment().number(),
       .block = block,
       .generation = arena_->generation(block),
       .ticket = {.sender = kDead, .bit = 0, .group = 0, .serial = 1}});
  die();
  EXPECT_TRUE(is_free(block));
  expect_nothing_left();
}

TEST_P(QueueRepair, OfATicketThatWasIssuedAndNotCounted) {
  const BlockNumber block = doomed_block();
  lock(tail());
  view_->send(block, header().first_ring[0].ticket);
  EXPECT_EQ(live_tickets(*memory_), 1u);
  die();
  EXPECT_EQ(live_tickets(*memory_), 0u);
  EXPECT_TRUE(is_free(block));
  EXPECT_EQ(tail().count.load(), 0u);
  expect_nothing_left();
}

TEST_P(QueueRepair, OfAMessageThatWasCounted) {
  const BlockNumber block = doomed_block();
  lock(tail());
  put(*view_, block);
  die();
  EXPECT_EQ(tail().count.load(), 1u);
  EXPECT_TRUE(is_live(block));
  ASSERT_TRUE(take_next());
  arena_->release(block);
  expect_nothing_left();
}

TEST_P(QueueRepair, InARingOfItsOwn) {
  const BlockNumber ring = testing::QueueWorld::make_container(*arena_, 128);
  header().ring(1).strategy.store(Strategy::file_descriptor);
  header().ring(1).start.store(0);
  arena_->send(ring, header().ring(1).ticket);
  arena_->release(ring);
  tail().ring.store(1);
  const BlockNumber put_before = doomed_block();
  view_->send(put_before, entry_in(*arena_, ring, 0).ticket);
  tail().count.store(1);
  const BlockNumber block = doomed_block();
  lock(tail());
  view_->send(block, entry_in(*arena_, ring, 1).ticket);
  die();
  EXPECT_TRUE(is_free(block));
  EXPECT_TRUE(is_live(put_before));
  EXPECT_TRUE(is_live(ring));
  expect_nothing_left();
}

TEST_P(QueueRepair, OfARingThatWasIssuedAndNotCounted) {
  const BlockNumber ring = testing::QueueWorld::make_container(*arena_, 128);
  share(*view_, ring);
  arena_->release(ring);
  lock(tail());
  header().ring(1).start.store(0);
  header().ring(1).strategy.store(Strategy::file_descriptor);
  view_->send(ring, header().ring(1).ticket);
  die();
  EXPECT_TRUE(is_free(ring));
  EXPECT_EQ(tail().ring.load(), 0u);
  EXPECT_EQ(live_tickets(*memory_), 0u);
  expect_nothing_left();
}

// All records of rings are used: that of the next ring is that of the oldest one.
TEST_P(QueueRepair, KeepsTheOldestRingIfAllAreUsed) {
  const BlockNumber ring = testing::QueueWorld::make_container(*arena_, 32);
  arena_->send(ring, header().ring(QueueHeader::kRings).ticket);
  header().ring(QueueHeader::kRings).strategy.store(Strategy::file_descriptor);
  head().ring.store(QueueHeader::kRings);
  tail().ring.store(2 * QueueHeader::kRings - 1);
  arena_->release(ring);
  lock(tail());
  die();
  EXPECT_TRUE(is_live(ring));
  expect_nothing_left();
}

TEST_P(QueueRepair, OfAMessageThatWasTakenAndNotCounted) {
  for (int i = 0; i < 2; ++i) {
    const BlockNumber block = *arena_->allocate(100);
    put(*arena_, block);
    arena_->release(block);
  }
  const auto first = header().first_ring[0].ticket.read();
  const auto second = header().first_ring[1].ticket.read();
  lock(head());
  ASSERT_TRUE(take(*view_, *first));
  die();
  EXPECT_EQ(head().count.load(), 1u) << "the next process takes the second message";
  EXPECT_TRUE(is_free(first->block));
  EXPECT_TRUE(is_live(second->block));
  ASSERT_TRUE(take_next());
  arena_->release(second->block);
  expect_nothing_left();
}

TEST_P(QueueRepair, OfAConsumerThatTookNothingYet) {
  const BlockNumber block = *arena_->allocate(100);
  put(*arena_, block);
  arena_->release(block);
  lock(head());
  die();
  EXPECT_EQ(head().count.load(), 0u);
  ASSERT_TRUE(take_next());
  arena_->release(block);
  expect_nothing_left();
}

TEST_P(QueueRepair, OfAConsumerThatHadCounted) {
  const BlockNumber block = *arena_->allocate(100);
  put(*arena_, block);
  arena_->release(block);
  lock(head());
  ASSERT_TRUE(take(*view_, *header().first_ring[0].ticket.read()));
  head().count.store(1);
  die();
  EXPECT_EQ(head().count.load(), 1u);
  EXPECT_TRUE(is_free(block));
  expect_nothing_left();
}

// Killed after it took the first message of a ring, whose number was not written yet, or after it
// cancelled the ticket of the ring before.
TEST_P(QueueRepair, OfARingThatWasPartlyRetired) {
  const BlockNumber ring = testing::QueueWorld::make_container(*arena_, 32);
  arena_->send(ring, header().ring(0).ticket);
  header().ring(0).strategy.store(Strategy::file_descriptor);
  header().ring(1).start.store(3);
  tail().ring.store(1);
  tail().count.store(4);
  head().count.store(3);
  arena_->release(ring);
  const BlockNumber block = *arena_->allocate(100);
  arena_->send(block, header().first_ring[0].ticket);
  arena_->release(block);
  lock(head());
  view_->set_contents(ring, {});
  const auto named = *header().ring(0).ticket.read();
  ASSERT_TRUE(memory_->transit(0).claim(named.ticket, named.arena, named.block, named.generation));
  die();
  EXPECT_EQ(head().count.load(), 3u) << "the ring of the message is the next one";
  EXPECT_TRUE(is_free(ring));
  EXPECT_TRUE(is_live(block));
  expect_nothing_left();
}

TEST_P(QueueRepair, OfBothEnds) {
  const BlockNumber block = doomed_block();
  put(*view_, block);
  lock(tail());
  lock(head());
  ASSERT_TRUE(take(*view_, *header().first_ring[0].ticket.read()));
  view_->send(block, header().first_ring[1].ticket);
  die();
  EXPECT_EQ(tail().count.load(), 1u);
  EXPECT_EQ(head().count.load(), 1u);
  EXPECT_TRUE(is_free(block));
  expect_nothing_left();
}

TEST_P(QueueRepair, KeepsTheLocksOfOthers) {
  ASSERT_TRUE(OwnerLock(tail().lock).try_lock(0));
  const BlockNumber block = *arena_->allocate(100);
  arena_->send(block, header().first_ring[0].ticket);
  sweep(kDead);
  EXPECT_EQ(OwnerLock(tail().lock).owner(), 0u);
  EXPECT_EQ(live_tickets(*memory_), 1u);
  arena_->release(block);
  expect_nothing_left();
}

TEST_P(QueueRepair, WakesAllWaiters) {
  std::array<std::uint32_t, 3> announced{};
  const std::array words{&header().getters, &header().putters, &header().joiners};
  for (std::size_t i = 0; i < 3; ++i) announced[i] = WaitFlag(*words[i]).announce();
  die();
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(WaitFlag(*words[i]).sleep(announced[i], std::chrono::hours(1)), WaitEnd::woken);
  }
  expect_nothing_left();
}

// Regression: the exception ended the manager, and the next one, and the lock stayed locked.
TEST_P(QueueRepair, UnlocksADamagedQueue) {
  const BlockNumber tiny = *arena_->allocate(64);
  const auto damage = [&](auto&& change) {
    for (QueueEnd* end : {&tail(), &head()}) {
      tail().count.store(1);
      head().count.store(0);
      end->ring.store(1);
      RingRecord& record = header().ring(1);
      record.start.store(0);
      record.strategy.store(Strategy::file_descriptor);
      record.ticket.write({.arena = 1, .block = tiny, .generation = 1, .ticket = {.sender = 0}});
      change(record);
      holders(queue_).fetch_or(bit_of(kDead));
      lock(*end);
      die();
    }
  };
  damage([](RingRecord&) {});  // the block is too small for a ring
  damage([](RingRecord& record) { record.ticket.block.store(1ULL << 32 | 4095); });
  damage([](RingRecord& record) { record.ticket.block.store(~0ULL); });
  damage([](RingRecord& record) { record.strategy.store(Strategy(77)); });
  damage([](RingRecord& record) { record.ticket.name.store(~0ULL); });
  damage([](RingRecord& record) { record.start.store(~0ULL); });
  damage([this](RingRecord&) { tail().ring.store(0x80000000); });
  damage([this](RingRecord&) { head().count.store(~0ULL); });
  arena_->segment().record(tiny).size.store(~0ULL);
  damage([](RingRecord&) {});
  arena_->segment().record(tiny).size.store(1024);
  arena_->segment().record(tiny).offset.fetch_add(4);
  damage([](RingRecord&) {});
}

// A process that resolves a stale handle sets its bit on a block that may be free, or another one.
// Regression: if it was killed then, the memory of the block that was a queue before was written.
TEST_P(QueueRepair, NeverWritesToABlockThatIsNotAQueueAnyMore) {
  const std::uint64_t offset = arena_->segment().record(queue_).offset.load();
  arena_->segment().holders(0, queue_).store(0);
  ASSERT_EQ(try_free(arena_->segment(), queue_, *memory_), FreeResult::draining);
  registry_.drain(*memory_, arena_->segment().number(), queue_);
  ASSERT_TRUE(is_free(queue_));
  // Another block in the same memory; the record of the queue keeps its description.
  const std::span<std::byte> bytes(
      arena_->segment().data(Access::read_write, offset, sizeof(QueueHeader)), sizeof(QueueHeader));
  std::ranges::fill(bytes, std::byte{0x77});
  auto& words = *reinterpret_cast<QueueHeader*>(bytes.data());
  words.tail.lock.store(kDead + 1u);
  words.head.lock.store(kDead + 1u);
  const std::vector<std::byte> before(bytes.begin(), bytes.end());
  holders(queue_).fetch_or(bit_of(kDead));
  sweep(kDead);
  EXPECT_TRUE(std::ranges::equal(bytes, before));
  EXPECT_EQ(holders(queue_).load(), 0u);
}

// The process that frees the block read the holder bits before the dead process set its own.
TEST_P(QueueRepair, KeepsAQueueLiveWhileItIsRepaired) {
  const std::uint64_t word = arena_->segment().record(queue_).word.load();
  EXPECT_TRUE(keep_live(arena_->segment(), queue_));
  EXPECT_NE(arena_->segment().record(queue_).word.load(), word);
  EXPECT_TRUE(is_live(queue_));
  arena_->segment().record(queue_).word.store(BlockWord(word).draining().bits());
  EXPECT_FALSE(keep_live(arena_->segment(), queue_));
}

}  // namespace
}  // namespace shmtensor
