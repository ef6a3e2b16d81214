// A queue whose consumers are killed, and that delivers their messages again.
#include <gtest/gtest.h>

#include "support/queue_kills.hpp"

namespace shmtensor {
namespace {

using namespace std::chrono_literals;
using testing::Ledger;
using testing::Letter;

class Redelivery : public testing::QueueKills {
 protected:
  Redelivery() { user_->make(60, Strategy::file_descriptor, true); }

  /// Receives all that is left; the deaths may not be repaired yet.
  void receive_rest() {
    user_->queue().shut_down();
    EXPECT_TRUE(eventually([&] {
      Letter letter;
      const Attempt result = user_->take(letter, 1s);
      if (result == Attempt::done) ledger_->taken.at(letter.number).fetch_add(1);
      return result == Attempt::shut_down;
    }));
  }
  [[nodiscard]] const KeptMessages& kept() {
    kept_ =
        KeptMessages::in(user_->block().arena->bytes(user_->block().number, Access::read_write));
    return kept_;
  }

 private:
  KeptMessages kept_;
};

TEST_F(Redelivery, StormLosesNothing) {
  const std::uint64_t consumers = kill_at_random(5);
  receive_rest();
  std::uint64_t again = 0;
  for (std::uint64_t i = 0; i < std::min(ledger_->next.load(), Ledger::kMost); ++i) {
    const int received = ledger_->taken[i].load();
    EXPECT_TRUE(received != 0 || ledger_->put[i].load() == 0) << i;
    again += static_cast<std::uint64_t>(std::max(received - 1, 0));
  }
  EXPECT_LE(again, consumers);
  for (const testing::Passed& one : passed_) {
    user_->block().arena->cancel_send(one.sent.block, one.sent.generation, one.sent.ticket);
  }
  passed_.clear();
  EXPECT_TRUE(nothing_is_left());
}

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
    QueueCall call(user_->session());
    ASSERT_EQ(user_->attempt(call, 1s, [&] { return user_->queue().try_take(message, call); }),
              Attempt::done);
  }
  EXPECT_EQ(user_->queue().size(), 1u);
  user_->queue().return_all_but(messages.at(1).kept);
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

TEST_F(Redelivery, AQueueTooSmallForItsRecordsIsDamaged) {
  testing::QueueUser other(id_);
  other.make(0);
  other.header().redelivers.store(1);
  EXPECT_THROW(Queue(other.session(), other.block()), SessionError);
}

}  // namespace
}  // namespace shmtensor
