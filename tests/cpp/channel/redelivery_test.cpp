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

  [[nodiscard]] const KeptMessages& kept() {
    kept_ =
        KeptMessages::in(user_->block().arena->bytes(user_->block().number, Access::read_write));
    return kept_;
  }

 private:
  KeptMessages kept_;
};

TEST_F(Redelivery, RecordsAreUsedAgain) {
  for (std::uint64_t i = 0; i < 200; ++i) {
    ASSERT_EQ(user_->put(i, i % 2 == 0), Attempt::done);
    Letter letter;
    ASSERT_EQ(user_->take(letter), Attempt::done);
    EXPECT_EQ(letter.number, i);
    EXPECT_TRUE(kept().has(i));
  }
  EXPECT_EQ(kept().used().size(), 1u);
  EXPECT_TRUE(kept().any_owned());
  user_->queue().complete_all();
  EXPECT_FALSE(kept().any_owned());
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(Redelivery, ReturnedMessagesComeInTheOrderInWhichTheyWerePut) {
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_EQ(user_->put(i, true), Attempt::done);
  std::array<Incoming, 3> messages;
  for (Incoming& message : messages) {
    ChannelCall call(user_->session());
    ASSERT_EQ(user_->attempt(call, 1s, [&] { return user_->queue().try_take(message, call); }),
              Attempt::done);
  }
  EXPECT_EQ(user_->queue().size(), 1u);
  for (const std::size_t i : {2u, 0u}) user_->queue().return_one(messages.at(i).kept);
  EXPECT_EQ(user_->queue().size(), 3u);
  for (Incoming& message : messages) message.block.reset();
  for (const std::uint64_t wanted : {0u, 2u, 3u}) {
    Letter letter;
    ASSERT_EQ(user_->take(letter), Attempt::done);
    EXPECT_EQ(letter.number, wanted);
  }
  user_->queue().complete_all();
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(Redelivery, AMessageStaysAllocatedWhileItIsKept) {
  ASSERT_EQ(user_->put(5, true), Attempt::done);
  Letter letter;
  ASSERT_EQ(user_->take(letter), Attempt::done);  // its block is released here
  const NamedTicket named = *kept().message(0).ticket.read();
  EXPECT_TRUE(user_->session().memory().transit(named.ticket.sender).is_live(named));
  user_->queue().return_all();
  ASSERT_EQ(user_->take(letter), Attempt::done);
  EXPECT_TRUE(letter.had_block);
  user_->queue().complete_all();
  EXPECT_FALSE(user_->session().memory().transit(named.ticket.sender).is_live(named));
  EXPECT_TRUE(nothing_is_left());
}

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
