// The repair of queues that are damaged, or not queues any more; the simulation has the others.
#include "queue/repair.hpp"

#include <gtest/gtest.h>

#include "queue/owner_lock.hpp"
#include "support/queue_world.hpp"

namespace shmtensor {
namespace {

using testing::live_tickets;
using testing::Peer;
using testing::used_blocks;

/// A process in slot 1 uses the queue and is killed.
class QueueRepair : public testing::QueueWorld {
 protected:
  QueueRepair() { share(*view_, queue_); }

  void lock(QueueEnd& end) { ASSERT_TRUE(OwnerLock(end.lock).try_lock(kDead)); }
  [[nodiscard]] QueueEnd& tail() const { return header().tail; }
  [[nodiscard]] QueueEnd& head() const { return header().head; }
  [[nodiscard]] std::atomic<std::uint64_t>& holders(BlockNumber block) const {
    return arena_->segment().holders(0, block);
  }
  void die() {
    sweep(kDead);
    EXPECT_GE(OwnerLock(tail().lock).owner(), kMaxSlots);
    EXPECT_GE(OwnerLock(head().lock).owner(), kMaxSlots);
    EXPECT_EQ(holders(queue_).load(), 1u);
    EXPECT_TRUE(is_live(queue_));
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

// All records of rings are used: that of the next ring is that of the oldest one.
TEST_F(QueueRepair, KeepsTheOldestRingIfAllAreUsed) {
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

// Regression: the exception ended the manager, and the next one, and the lock stayed locked.
TEST_F(QueueRepair, UnlocksADamagedQueue) {
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
TEST_F(QueueRepair, NeverWritesToABlockThatIsNotAQueueAnyMore) {
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
TEST_F(QueueRepair, KeepsAQueueLiveWhileItIsRepaired) {
  const std::uint64_t word = arena_->segment().record(queue_).word.load();
  EXPECT_TRUE(keep_live(arena_->segment(), queue_));
  EXPECT_NE(arena_->segment().record(queue_).word.load(), word);
  EXPECT_TRUE(is_live(queue_));
  arena_->segment().record(queue_).word.store(BlockWord(word).draining().bits());
  EXPECT_FALSE(keep_live(arena_->segment(), queue_));
}

}  // namespace
}  // namespace shmtensor
