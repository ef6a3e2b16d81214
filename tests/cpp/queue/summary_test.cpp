#include "queue/summary.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "manager/session_statistics.hpp"
#include "queue/kept.hpp"
#include "queue/wait_flag.hpp"
#include "support/queue_world.hpp"

namespace shmtensor {
namespace {

class QueueSummaryTest : public testing::QueueWorld {
 protected:
  [[nodiscard]] std::optional<QueueSummary> seen() const {
    return summarize_queue(arena_->segment(), queue_, *memory_);
  }
};

TEST_F(QueueSummaryTest, HasTheNumbersOfTheQueue) {
  header().limit.store(70);
  header().tail.count.store(1066);
  header().head.count.store(1000);
  header().head.ring.store(18);
  header().tail.ring.store(20);
  const auto open = seen();
  ASSERT_TRUE(open);
  EXPECT_EQ(open->arena, arena_->segment().number());
  EXPECT_EQ(open->block, queue_);
  EXPECT_EQ(open->limit, 70u);
  EXPECT_EQ(open->messages, 66u);
  EXPECT_EQ(open->put, 1066u);
  EXPECT_EQ(open->rings, 3u);
  EXPECT_FALSE(open->getters || open->putters || open->shut_down || open->damaged);
  static_cast<void>(WaitFlag(header().getters).announce());
  EXPECT_TRUE(seen()->getters);
  WaitFlag(header().getters).wake_everyone();
  static_cast<void>(WaitFlag(header().putters).announce());
  header().stage.store(QueueStage::shut_down);
  EXPECT_FALSE(seen()->getters);
  EXPECT_TRUE(seen()->putters);
  EXPECT_TRUE(seen()->shut_down);
}

TEST_F(QueueSummaryTest, CountsTheProcessesThatHaveIt) {
  EXPECT_EQ(seen()->processes, 0u) << "no process is in the slot of the owner";
  memory_->slot(0).status.store(SlotStatus::active);
  EXPECT_EQ(seen()->processes, 1u);
  testing::Peer other(*memory_, 70);
  memory_->slot(70).status.store(SlotStatus::unlocked);
  const auto theirs = other.open_arena(arena_->segment());
  share(*theirs, queue_);
  EXPECT_EQ(seen()->processes, 2u);
  theirs->release(queue_);
  EXPECT_EQ(seen()->processes, 1u);
}

TEST_F(QueueSummaryTest, IsNotSeenInOtherBlocksNorAfterItIsFreed) {
  const BlockNumber plain = *arena_->allocate(sizeof(QueueHeader));
  const BlockNumber parcel = make_container(*arena_, 4);
  const BlockNumber second = make_queue(*arena_);
  for (const BlockNumber block : {plain, parcel, second}) {
    EXPECT_EQ(summarize_queue(arena_->segment(), block, *memory_).has_value(), block == second);
  }
  arena_->release(second);
  EXPECT_FALSE(summarize_queue(arena_->segment(), second, *memory_)) << "it drains";
  EXPECT_FALSE(summarize_queue(arena_->segment(), ~0u, *memory_));
}

TEST_F(QueueSummaryTest, TheManagerFindsAndCountsAllQueues) {
  const BlockNumber second = make_queue(*arena_);
  testing::Peer other(*memory_, kDead);
  const auto theirs = other.make_arena();
  const BlockNumber third = make_queue(*theirs);
  add_to(registry_, *theirs);
  header_in(*arena_, second).tail.count.store(5);
  std::vector<std::pair<ArenaNumber, BlockNumber>> found;
  std::optional<QueueSummary> seen = next_queue(registry_, *memory_, 0, 0);
  for (; seen; seen = next_queue(registry_, *memory_, seen->arena, seen->block + 1)) {
    found.emplace_back(seen->arena, seen->block);
  }
  const ArenaNumber own = arena_->segment().number();
  EXPECT_EQ(found, (std::vector<std::pair<ArenaNumber, BlockNumber>>{
                       {own, queue_}, {own, second}, {theirs->segment().number(), third}}));
  EXPECT_FALSE(next_queue(registry_, *memory_, theirs->segment().number(), ~std::uint64_t{0}));
  Statistics statistics;
  count(registry_, *memory_, statistics);
  EXPECT_EQ(statistics.queues, 3u);
  EXPECT_EQ(statistics.queued, 5u);
}

TEST_F(QueueSummaryTest, AFileWithoutTheBlockIsNotRead) {
  BlockRecord& record = arena_->segment().record(queue_);
  const std::uint64_t offset = record.offset.load();
  const std::uint64_t before = arena_->segment().data_in_file();
  for (const std::uint64_t wrong :
       {~std::uint64_t{0}, std::uint64_t{1} << 62, before, before - 1}) {
    record.offset.store(wrong);
    EXPECT_FALSE(seen()) << wrong;
  }
  record.offset.store(offset);
  record.size.store(sizeof(QueueHeader) - 1);
  EXPECT_FALSE(seen());
}

TEST_F(QueueSummaryTest, ImpossibleNumbersAreReported) {
  const auto damaged_by = [&](auto&& damage) {
    damage(header());
    const auto found = seen();
    std::memset(static_cast<void*>(&header()), 0, sizeof(QueueHeader));
    header().magic.store(kQueueMagic);
    return found->damaged && found->messages == 0 && found->rings == 0;
  };
  constexpr std::uint64_t kMany = std::uint64_t{1} << 40;
  EXPECT_TRUE(damaged_by([](QueueHeader& queue) { queue.head.count.store(kMany); }));
  EXPECT_TRUE(damaged_by([](QueueHeader& queue) { queue.tail.count.store(kMany); }));
  EXPECT_TRUE(damaged_by([](QueueHeader& queue) { queue.stage.store(QueueStage{2}); }));
  EXPECT_FALSE(seen()->damaged);
  header().magic.store(1);
  EXPECT_FALSE(seen());
}

TEST_F(QueueSummaryTest, AnEndThatWasReadLaterIsNotAhead) {
  header().head.count.store(3);
  header().head.ring.store(2);
  const auto found = seen();
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->damaged);
  EXPECT_EQ(found->messages, 0u);
  EXPECT_EQ(found->rings, 1u);
}

TEST_F(QueueSummaryTest, RandomWordsAreNotFatalAndNotChanged) {
  std::mt19937_64 random(3);
  std::vector<std::uint64_t> words(offsetof(QueueHeader, rings) / 8);
  for (int round = 0; round < 2000; ++round) {
    for (std::uint64_t& word : words) word = random() >> random() % 64;
    words[0] = kQueueMagic;
    std::memcpy(static_cast<void*>(&header()), words.data(), words.size() * 8);
    const auto found = seen();
    ASSERT_TRUE(found);
    ASSERT_LE(found->rings, QueueHeader::kRings);
    ASSERT_LT(found->messages, (std::uint64_t{1} << 40) + KeptMessages::kRecords);
    ASSERT_EQ(std::memcmp(&header(), words.data(), words.size() * 8), 0);
  }
}

TEST_F(QueueSummaryTest, IsPlausibleWhileMessagesArePutAndTaken) {
  constexpr std::uint64_t kLimit = 5;
  header().limit.store(kLimit);
  std::atomic<bool> done{false};
  std::thread user([&] {
    QueueHeader& queue = header();
    for (std::uint64_t count = 0; !done.load(); ++count) {
      const std::uint64_t batch = 1 + count % kLimit;
      for (std::uint64_t i = 0; i < batch; ++i) queue.tail.count.fetch_add(1);
      if (count % 7 == 0) queue.tail.ring.fetch_add(1);
      for (std::uint64_t i = 0; i < batch; ++i) queue.head.count.fetch_add(1);
      queue.head.ring.store(queue.tail.ring.load());
    }
  });
  std::uint64_t put = 0;
  for (int round = 0; round < 20'000; ++round) {
    const auto found = seen();
    EXPECT_TRUE(found && !found->damaged);
    if (!found || found->damaged || found->messages > kLimit || found->put < put) {
      ADD_FAILURE() << round << ": " << found->messages << " messages, put " << found->put;
      break;
    }
    put = found->put;
  }
  done.store(true);
  user.join();
  EXPECT_EQ(seen()->messages, 0u);
}

}  // namespace
}  // namespace shmtensor
