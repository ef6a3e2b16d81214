// A queue that delivers the messages of its consumers again.
#include <gtest/gtest.h>

#include <semaphore>
#include <thread>

#include "queue/wait_flag.hpp"
#include "support/queue_user.hpp"

namespace shmtensor {
namespace {

using namespace std::chrono_literals;
using testing::Letter;

class Redelivery : public testing::QueueTest {
 protected:
  Redelivery() { user_->make(60, Strategy::file_descriptor, true); }
};

TEST_F(Redelivery, TheEndOfAThreadReturnsItsMessages) {
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_EQ(user_->put(i, true), Attempt::done);
  Letter letter;
  ASSERT_EQ(user_->take(letter), Attempt::done);
  std::thread([&] {
    Letter theirs;
    ASSERT_EQ(user_->take(theirs), Attempt::done);
    EXPECT_EQ(theirs.number, 1u);
    user_->queue().complete_all();
    ASSERT_EQ(user_->take(theirs), Attempt::done);
    EXPECT_EQ(theirs.number, 2u);
    EXPECT_TRUE(user_->queue().keeps_any_here());
  }).join();
  EXPECT_EQ(user_->queue().size(), 1u);
  EXPECT_TRUE(user_->queue().keeps_any_here());
  ASSERT_EQ(user_->take(letter), Attempt::done);
  EXPECT_EQ(letter.number, 2u);
  user_->queue().complete_all();
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(Redelivery, AThreadMayOutliveAQueue) {
  std::binary_semaphore received{0};
  std::binary_semaphore gone{0};
  std::thread thread([&] {
    Letter letter;
    EXPECT_EQ(user_->take(letter), Attempt::done);
    received.release();
    gone.acquire();
  });
  ASSERT_EQ(user_->put(1, true), Attempt::done);
  received.acquire();
  user_->leave();
  gone.release();
  thread.join();
  EXPECT_TRUE(nothing_is_left());
}

// Regression: a completion woke no consumer if a record was free before it, which another one may
// have taken since.
TEST_F(Redelivery, ACompletionWakesAConsumerThatFoundNoRecord) {
  for (std::uint64_t i = 0; i < 2; ++i) ASSERT_EQ(user_->put(i, true), Attempt::done);
  Letter letter;
  ASSERT_EQ(user_->take(letter), Attempt::done);
  const KeptMessages kept = KeptMessages::in(user_->bytes());
  user_->header().kept_used.store(KeptMessages::kRecords);
  const auto others = kept.used().subspan(1, KeptMessages::kRecords - 2);
  for (KeptRecord& record : others) record.owner.store(user_->session().slot() + 1u);
  const std::uint32_t announced = WaitFlag(user_->header().getters).announce();
  user_->queue().complete_all();
  EXPECT_NE(user_->header().getters.load(), announced);
  for (KeptRecord& record : others) record.owner.store(0);
  EXPECT_EQ(user_->next(), 1u);
  user_->queue().complete_all();
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(Redelivery, AQueueTooSmallForItsRecordsIsDamaged) {
  testing::QueueUser other(id_);
  other.make(0);
  other.header().redelivers.store(1);
  EXPECT_THROW(Queue(other.session(), other.block()), SessionError);
}

}  // namespace
}  // namespace shmtensor
