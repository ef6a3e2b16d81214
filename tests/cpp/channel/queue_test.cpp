#include "channel/queue.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "arena/segment.hpp"
#include "os/shm_object.hpp"
#include "queue/owner_lock.hpp"
#include "support/queue_user.hpp"
#include "support/scarce_address_space.hpp"
#include "support/shared.hpp"

namespace shmtensor {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using testing::eventually;
using testing::Letter;
using testing::Passed;
using testing::QueueUser;
using testing::Shared;
using testing::Turn;

class QueueInOneProcess : public testing::QueueTest {};

TEST_F(QueueInOneProcess, HasALimit) {
  for (const std::uint64_t limit : {1u, 5u, 31u, 32u, 100u}) {
    user_->make(limit);
    EXPECT_EQ(user_->queue().limit(), limit);
    for (std::uint64_t i = 0; i < limit; ++i) ASSERT_EQ(user_->put(i, true), Attempt::done);
    EXPECT_EQ(user_->put(limit, true, 0ns), Attempt::full);
    EXPECT_EQ(user_->put(limit, true, 2ms), Attempt::full);
    EXPECT_EQ(user_->next(), 0u);
    ASSERT_EQ(user_->put(limit, false), Attempt::done);
    EXPECT_EQ(user_->put(limit, false, 0ns), Attempt::full);
    for (std::uint64_t i = 1; i <= limit; ++i) EXPECT_EQ(user_->next(), i);
    EXPECT_TRUE(nothing_is_left());
  }
}

TEST_F(QueueInOneProcess, GrowsOverSeveralRingsAndReturnsToTheFirst) {
  constexpr std::uint64_t kMany = 3000;
  user_->make(0);
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t i = 0; i < kMany; ++i) ASSERT_EQ(user_->put(i, i % 7 == 0), Attempt::done);
    QueueHeader& header = user_->header();
    const std::uint32_t grown = header.tail.ring.load();
    EXPECT_GE(grown - header.head.ring.load(), 3u);
    EXPECT_TRUE(header.ring(grown).ticket.read());
    for (std::uint64_t i = 0; i < kMany; ++i) ASSERT_EQ(user_->next(), i);
    // The empty queue uses the first ring again when it is at the beginning of the large one.
    for (std::uint64_t i = 0; i < 3 * kMany && header.tail.ring.load() == grown; ++i) {
      ASSERT_EQ(user_->put(i, false), Attempt::done);
      ASSERT_EQ(user_->next(), i);
    }
    EXPECT_EQ(header.tail.ring.load(), grown + 1);
    EXPECT_FALSE(header.ring(grown + 1).ticket.read());
    EXPECT_EQ(header.head.ring.load(), grown + 1);
    EXPECT_TRUE(eventually([&] { return used() == 1; })) << "the blocks of all rings are free";
  }
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(QueueInOneProcess, ThatIsReleasedFreesItsMessages) {
  for (const Strategy strategy : {Strategy::file_descriptor, Strategy::file_system}) {
    for (const std::uint64_t messages : {0u, 1u, 31u, 700u}) {
      user_->make(0, strategy);
      for (std::uint64_t i = 0; i < messages; ++i) ASSERT_EQ(user_->put(i, true), Attempt::done);
      for (std::uint64_t i = 0; i < messages / 3; ++i) ASSERT_EQ(user_->next(), i);
      EXPECT_TRUE(nothing_is_left()) << messages;
    }
  }
}

// Regression: the ring was in the arena of one dead process, the message in that of another. To map
// one of them, the reader unmapped the other, without end.
TEST_F(QueueInOneProcess, IsReadAfterTheDeathsOfSeveralProcesses) {
  user_->make(0);
  for (std::uint64_t sender = 0; sender < 3; ++sender) {
    const Passed passed = user_->pass();
    testing::in_child([&] {
      QueueUser user(id_);
      user.open(passed);
      for (std::uint64_t i = 0; i < 100; ++i) {
        ASSERT_EQ(user.put(100 * sender + i, true), Attempt::done);
      }
    });
  }
  EXPECT_TRUE(eventually([&] { return user_->session().manager().statistics().processes == 1; }));
  for (std::uint64_t i = 0; i < 300; ++i) {
    Letter letter;
    ASSERT_EQ(user_->take(letter, 10s), Attempt::done) << i;
    EXPECT_EQ(letter.number, i);
  }
  EXPECT_TRUE(nothing_is_left());
}

// Regression: the name of the message's arena was gone when this process mapped the message.
TEST_F(QueueInOneProcess, MessageIsTakenByAnotherProcessWhileItIsMapped) {
  user_->make(0);
  const Passed passed = user_->pass();
  testing::in_child([&] {
    QueueUser sender(id_);
    sender.open(passed);
    ASSERT_EQ(sender.put(1, true, 1h, Strategy::file_system), Attempt::done);
  });
  ASSERT_TRUE(eventually([&] { return user_->session().manager().statistics().processes == 1; }));
  ASSERT_EQ(list_shm(object_name(id_) + "-").size(), 1u);
  Incoming message;
  ChannelCall call(user_->session());
  ASSERT_EQ(user_->queue().try_take(message, call), Attempt::unmapped) << "the arena";
  user_->queue().prepare(Attempt::unmapped, call, 0ns);
  ASSERT_EQ(user_->queue().try_take(message, call), Attempt::unmapped) << "the block";
  const Passed again = user_->pass();
  testing::in_child([&] {
    QueueUser other(id_);
    other.open(again);
    EXPECT_EQ(other.next(), 1u);
  });
  ASSERT_TRUE(eventually([&] { return list_shm(object_name(id_) + "-").empty(); }));
  user_->queue().prepare(Attempt::unmapped, call, 0ns);
  EXPECT_EQ(user_->queue().try_take(message, call), Attempt::empty);
}

// Regression: the process ended.
TEST_F(QueueInOneProcess, MessageStaysIfItsTicketCannotBeReadForTheClaim) {
  user_->make(0);
  Atomic<std::uint64_t> claim{0};
  user_->queue().claim_in(claim);
  QueueUser other(id_);
  other.open(user_->pass());
  ASSERT_EQ(other.put(1, true), Attempt::done);
  Incoming message;
  ChannelCall call(user_->session());
  for (const char* lack : {"arena", "bytes"}) {
    ASSERT_EQ(user_->queue().try_take(message, call), Attempt::unmapped) << lack;
    user_->queue().prepare(Attempt::unmapped, call, 1s);
  }
  testing::with_scarce_address_space(
      [&] { EXPECT_THROW(static_cast<void>(user_->queue().try_take(message, call)), OsError); });
  EXPECT_EQ(claim.load(), 0u);
  EXPECT_EQ(user_->next(), 1u);
  EXPECT_EQ(claim.load(), 1u);
  other.leave();
  EXPECT_TRUE(nothing_is_left());
}

// Regression: the call had the lock until it ended, while its thread waited for the GIL.
TEST_F(QueueInOneProcess, LocksNoEndAfterItWasClosed) {
  for (const bool puts : {true, false}) {
    user_->make(0);
    ChannelCall call(user_->session());
    Incoming message;
    const auto attempt = [&] {
      return puts ? user_->queue().try_put({}, call) : user_->queue().try_take(message, call);
    };
    OwnerLock lock(puts ? user_->header().tail.lock : user_->header().head.lock);
    ASSERT_TRUE(lock.try_lock(user_->session().slot()));
    ASSERT_EQ(attempt(), Attempt::locked);
    lock.unlock();
    user_->queue().prepare(Attempt::locked, call, 1s);
    ASSERT_EQ(lock.owner(), user_->session().slot());
    user_->queue().close();
    EXPECT_EQ(attempt(), Attempt::closed);
    EXPECT_EQ(lock.owner(), OwnerLock::kNone);
  }
}

TEST_F(QueueInOneProcess, WaitsNoLongerThanItsTime) {
  user_->make(1);
  for (const std::chrono::nanoseconds time : {-1ns, 0ns, 1ns, std::chrono::nanoseconds(3ms)}) {
    ChannelCall call(user_->session());
    user_->queue().prepare(Attempt::empty, call, time);
    user_->queue().wait_until_done(time);
  }
  ASSERT_EQ(user_->put(1, false), Attempt::done);
  ChannelCall call(user_->session());
  user_->queue().prepare(Attempt::full, call, -1ns);
}

TEST_F(QueueInOneProcess, IsNotOpenedInOtherMemory) {
  const HeldBlock small(user_->session().allocate(64, Strategy::file_descriptor));
  EXPECT_THROW(Queue(user_->session(), *small), SessionError);
  const HeldBlock zeros(user_->session().allocate(sizeof(QueueHeader), Strategy::file_descriptor));
  EXPECT_THROW(Queue(user_->session(), *zeros), SessionError);
}

TEST_F(QueueInOneProcess, IsSharedByThreads) {
  constexpr std::uint64_t kEach = 3000;
  user_->make(10);
  std::atomic<std::uint64_t> sum{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] {
        for (std::uint64_t n = 1; n <= kEach; ++n) {
          EXPECT_EQ(user_->put(n, n % 2 == 0), Attempt::done);
        }
      });
      threads.emplace_back([&] {
        for (std::uint64_t n = 1; n <= kEach; ++n) {
          Letter letter;
          EXPECT_EQ(user_->take(letter), Attempt::done);
          sum.fetch_add(letter.number);
        }
      });
    }
  }
  EXPECT_EQ(sum.load(), kEach * (kEach + 1));
  EXPECT_TRUE(nothing_is_left());
}

struct Traffic {
  Turn turn;
  std::array<std::atomic<std::uint64_t>, 4> taken;
  std::atomic<std::uint64_t> total{0};
  std::atomic<std::uint64_t> out_of_order{0};
};

class QueueOfProcesses : public testing::QueueTest {
 protected:
  const Shared<Traffic> traffic_;
};
class QueueTraffic : public QueueOfProcesses,
                     public ::testing::WithParamInterface<std::uint64_t> {};

INSTANTIATE_TEST_SUITE_P(Limits, QueueTraffic, ::testing::Values(0, 1, 7, 200));

// A consumer sees the messages of each producer in their order.
TEST_P(QueueTraffic, DeliversEachMessageOnce) {
  constexpr std::uint64_t kEach = 2500;
  user_->make(GetParam());
  std::vector<std::unique_ptr<Child>> children;
  for (std::uint64_t producer = 0; producer < 2; ++producer) {
    children.push_back(std::make_unique<Child>([&, producer, passed = user_->pass()] {
      QueueUser user(id_);
      user.open(passed);
      for (std::uint64_t i = 1; i <= kEach; ++i) {
        ASSERT_EQ(user.put(producer << 32 | i, i % 5 == 0), Attempt::done);
      }
    }));
    children.push_back(std::make_unique<Child>([&, passed = user_->pass()] {
      QueueUser user(id_);
      user.open(passed);
      std::array<std::uint64_t, 2> last{};
      for (;;) {
        Letter letter;
        const Attempt result = user.take(letter);
        if (result == Attempt::shut_down) return;
        ASSERT_EQ(result, Attempt::done);
        const std::uint64_t from = letter.number >> 32;
        const std::uint64_t number = letter.number & 0xffffffff;
        if (number <= last.at(from)) traffic_->out_of_order.fetch_add(1);
        last.at(from) = number;
        traffic_->taken.at(from).fetch_add(number);
        traffic_->total.fetch_add(1);
        ASSERT_TRUE(user.queue().task_done());
      }
    }));
  }
  EXPECT_EQ(children[0]->wait(), 0);
  EXPECT_EQ(children[2]->wait(), 0);
  while (!user_->queue().all_done()) user_->queue().wait_until_done(3600s);
  EXPECT_EQ(traffic_->total.load(), 2 * kEach);
  user_->queue().shut_down();
  EXPECT_EQ(children[1]->wait(), 0);
  EXPECT_EQ(children[3]->wait(), 0);
  EXPECT_EQ(traffic_->out_of_order.load(), 0u);
  for (std::size_t from = 0; from < 2; ++from) {
    EXPECT_EQ(traffic_->taken.at(from).load(), kEach * (kEach + 1) / 2);
  }
  EXPECT_TRUE(nothing_is_left());
}

// The other end was asleep: whatever it waits for, it is woken, and not at the end of a slice.
TEST_F(QueueOfProcesses, WakesAProcessThatWaits) {
  user_->make(1);
  const auto sleeps = [&](const std::atomic<std::uint32_t>& word) {
    return eventually([&] { return (word.load() & 1) != 0; });
  };
  const auto other = [&](auto&& body) {
    return std::make_unique<Child>([this, body, passed = user_->pass()] {
      QueueUser user(id_);
      user.open(passed);
      body(user);
    });
  };
  auto getter = other([](QueueUser& user) {
    Letter letter;
    EXPECT_EQ(user.take(letter), Attempt::done);
    EXPECT_EQ(letter.number, 5u);
  });
  ASSERT_TRUE(sleeps(user_->header().getters));
  ASSERT_EQ(user_->put(5, true), Attempt::done);
  EXPECT_EQ(getter->wait(), 0);

  ASSERT_EQ(user_->put(6, false), Attempt::done);
  auto putter = other([](QueueUser& user) { EXPECT_EQ(user.put(7, true), Attempt::done); });
  ASSERT_TRUE(sleeps(user_->header().putters));
  EXPECT_EQ(user_->next(), 6u);
  EXPECT_EQ(putter->wait(), 0);

  ASSERT_TRUE(user_->queue().task_done());
  ASSERT_TRUE(user_->queue().task_done());
  auto joiner = other([](QueueUser& user) {
    while (!user.queue().all_done()) user.queue().wait_until_done(3600s);
  });
  ASSERT_TRUE(sleeps(user_->header().joiners));
  ASSERT_TRUE(user_->queue().task_done());
  EXPECT_EQ(joiner->wait(), 0);

  putter = other([](QueueUser& user) { EXPECT_EQ(user.put(8, true), Attempt::shut_down); });
  ASSERT_TRUE(sleeps(user_->header().putters));
  user_->queue().shut_down();
  EXPECT_EQ(putter->wait(), 0);
  EXPECT_EQ(user_->next(), 7u);
  EXPECT_TRUE(nothing_is_left());
}

// The owner of a lock is stopped: others wait, for their time only, and continue after it.
TEST_F(QueueOfProcesses, WaitsForAStoppedOwner) {
  user_->make(0);
  ASSERT_EQ(user_->put(1, false), Attempt::done);
  Child owner([&, passed = user_->pass()] {
    QueueUser user(id_);
    user.open(passed);
    OwnerLock theirs(user.header().head.lock);
    ASSERT_TRUE(theirs.try_lock(user.session().slot()));
    traffic_->turn.set(1);
    ASSERT_TRUE(traffic_->turn.reaches(2));
    theirs.unlock();
    traffic_->turn.set(3);
    ::pause();
  });
  ASSERT_TRUE(traffic_->turn.reaches(1));
  Letter letter;
  EXPECT_EQ(user_->take(letter, 5ms), Attempt::locked);
  EXPECT_EQ(user_->put(2, false), Attempt::done) << "the other end is free";
  std::jthread later([&] { traffic_->turn.set(2); });
  EXPECT_EQ(user_->take(letter), Attempt::done);
  EXPECT_EQ(letter.number, 1u);
}

}  // namespace
}  // namespace shmtensor
