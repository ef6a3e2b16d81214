// A queue that delivers the messages of its consumers again.
#include <gtest/gtest.h>

#include <semaphore>
#include <thread>

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

TEST_F(Redelivery, AQueueTooSmallForItsRecordsIsDamaged) {
  testing::QueueUser other(id_);
  other.make(0);
  other.header().redelivers.store(1);
  EXPECT_THROW(Queue(other.session(), other.block()), SessionError);
}

}  // namespace
}  // namespace shmtensor
