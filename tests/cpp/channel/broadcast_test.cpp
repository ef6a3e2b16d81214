#include "channel/broadcast.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "arena/segment.hpp"
#include "os/shm_object.hpp"
#include "queue/owner_lock.hpp"
#include "queue/summary.hpp"
#include "support/broadcast_user.hpp"

namespace shmtensor {
namespace {

using namespace std::chrono_literals;
using testing::BroadcastUser;
using testing::eventually;
using testing::Letter;
using testing::Passed;

class BroadcastInOneProcess : public testing::BroadcastTest {
 protected:
  void put_all(std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t i = begin; i < end; ++i) {
      ASSERT_EQ(user_->put(i, i % 3 == 0), Attempt::done) << i;
    }
  }
  void expect_all(BroadcastReader& reader, std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t i = begin; i < end; ++i) ASSERT_EQ(user_->next(reader), i);
  }
};

TEST_F(BroadcastInOneProcess, HoldsAMessageOnceForAllReaders) {
  user_->make(4);
  std::vector<std::unique_ptr<BroadcastReader>> readers;
  for (int i = 0; i < 8; ++i) readers.push_back(user_->reader());
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_EQ(user_->put(i, true), Attempt::done);
  EXPECT_EQ(used(), 1u + 4u);
  for (const auto& reader : readers) {
    EXPECT_EQ(used(), 1u + 4u);
    expect_all(*reader, 0, 4);
  }
  EXPECT_TRUE(stay(1));
  readers.clear();
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(BroadcastInOneProcess, IsFullForTheSlowestReader) {
  for (const std::uint64_t limit : {1u, 2u, 5u}) {
    user_->make(limit);
    const auto fast = user_->reader();
    const auto slow = user_->reader();
    put_all(0, limit);
    expect_all(*fast, 0, limit);
    EXPECT_EQ(user_->put(limit, true, 0ns), Attempt::full);
    EXPECT_EQ(user_->put(limit, true, 2ms), Attempt::full);
    expect_all(*slow, 0, 1);
    ASSERT_EQ(user_->put(limit, false), Attempt::done);
    EXPECT_EQ(user_->put(limit, false, 0ns), Attempt::full);
    slow->leave();
    expect_all(*fast, limit, limit + 1);
    put_all(0, limit);
    fast->leave();
    EXPECT_TRUE(nothing_is_left());
  }
}

TEST_F(BroadcastInOneProcess, DropsTheOldestMessage) {
  for (const std::uint64_t limit : {1u, 2u, 5u}) {
    user_->make(limit, OnFull::drop_oldest);
    const auto fast = user_->reader();
    const auto slow = user_->reader();
    for (std::uint64_t i = 0; i < 20; ++i) {
      ASSERT_EQ(user_->put(i, true), Attempt::done);
      EXPECT_EQ(user_->next(*fast), i);
    }
    EXPECT_TRUE(eventually([&] { return used() == 1 + limit; }));
    EXPECT_EQ(slow->lag(), limit);
    EXPECT_EQ(slow->missed(), 0u);
    expect_all(*slow, 20 - limit, 20);
    EXPECT_EQ(slow->missed(), 20 - limit);
    EXPECT_EQ(fast->missed(), 0u);
    EXPECT_TRUE(stay(1));
    slow->leave();
    fast->leave();
    EXPECT_TRUE(nothing_is_left());
  }
}

TEST_F(BroadcastInOneProcess, IsReadFromTheJoiningOn) {
  user_->make(5);
  EXPECT_EQ(user_->put(0, true), Attempt::done) << "nobody reads it";
  EXPECT_EQ(used(), 1u);
  const auto first = user_->reader();
  EXPECT_FALSE(user_->next(*first));
  put_all(1, 3);
  const auto second = user_->reader();
  EXPECT_EQ(user_->broadcast().readers(), 2u);
  put_all(3, 5);
  expect_all(*second, 3, 5);
  expect_all(*first, 1, 5);
  first->leave();
  first->leave();
  EXPECT_EQ(user_->broadcast().readers(), 1u);
  Letter letter;
  EXPECT_EQ(user_->take(*first, letter), Attempt::closed);
  second->leave();
  for (std::uint64_t i = 0; i < 20; ++i) ASSERT_EQ(user_->put(i, true), Attempt::done);
  EXPECT_TRUE(nothing_is_left());
}

// Regression: it gave up at a message whose arena was gone, as when another reader frees it first.
TEST_F(BroadcastInOneProcess, FreesTheRestIfTheArenaOfAMessageIsGone) {
  user_->make(20);
  const auto reader = user_->reader();
  const Passed passed = user_->pass();
  testing::in_child([&] {
    BroadcastUser writer(id_);
    writer.open(passed);
    ASSERT_EQ(writer.put(1, true, 1h, Strategy::file_system), Attempt::done);
  });
  ASSERT_TRUE(eventually([&] { return user_->session().manager().statistics().processes == 1; }));
  ASSERT_EQ(user_->put(2, true), Attempt::done);
  const auto names = list_shm(object_name(id_) + "-");
  ASSERT_EQ(names.size(), 1u);
  ASSERT_TRUE(unlink_shm(names.front()));
  reader->leave();
  EXPECT_TRUE(stay(1));
}

// Regression: the attempt asked the manager for the arena, with the GIL.
TEST_F(BroadcastInOneProcess, LacksTheArenaOfAMessageThatIsSkipped) {
  user_->make(4);
  const auto reader = user_->reader();
  reader->skip_to_newest();
  BroadcastUser other(id_);
  other.open(user_->pass());
  ASSERT_EQ(other.put(1, true), Attempt::done);
  ChannelCall call(user_->session());
  const std::uint64_t number = 2;
  Outgoing message;
  message.content = std::as_bytes(std::span(&number, 1));
  EXPECT_EQ(user_->broadcast().try_put(message, call), Attempt::unmapped);
  user_->broadcast().prepare(Attempt::unmapped, call, 1s);
  EXPECT_EQ(user_->broadcast().try_put(message, call), Attempt::done);
  EXPECT_EQ(user_->next(*reader), 2u);
  reader->leave();
  other.leave();
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(BroadcastInOneProcess, ThatIsReleasedFreesItsMessages) {
  for (const Strategy strategy : {Strategy::file_descriptor, Strategy::file_system}) {
    user_->make(100, OnFull::block, strategy);
    const auto passed = user_->pass();
    testing::in_child([&] {
      BroadcastUser user(id_);
      user.open(passed, strategy);
      static_cast<void>(user.reader().release());  // it does not leave
      for (std::uint64_t i = 0; i < 50; ++i) ASSERT_EQ(user.put(i, true), Attempt::done);
    });
    EXPECT_TRUE(nothing_is_left());
  }
}

TEST_F(BroadcastInOneProcess, ThatIsShutDownDeliversWhatItHas) {
  user_->make(5);
  const auto reader = user_->reader();
  put_all(0, 2);
  user_->broadcast().shut_down();
  EXPECT_EQ(user_->put(3, true), Attempt::shut_down);
  expect_all(*reader, 0, 2);
  Letter letter;
  EXPECT_EQ(user_->take(*reader, letter), Attempt::shut_down);
  const auto late = user_->reader();
  EXPECT_EQ(user_->take(*late, letter), Attempt::shut_down);
  late->leave();
  reader->leave();
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(BroadcastInOneProcess, HasALimitedNumberOfReaders) {
  user_->make(2);
  std::vector<std::unique_ptr<BroadcastReader>> readers;
  for (std::uint32_t i = 0; i < BroadcastHeader::kReaders; ++i) readers.push_back(user_->reader());
  EXPECT_THROW(static_cast<void>(user_->reader()), SessionError);
  readers.at(7)->leave();
  readers.at(7) = user_->reader();
  ASSERT_EQ(user_->put(1, true), Attempt::done);
  for (const auto& reader : readers) EXPECT_EQ(user_->next(*reader), 1u);
  EXPECT_TRUE(stay(1));
  readers.clear();
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(BroadcastInOneProcess, IsSeenFromOutside) {
  const auto seen = [&] {
    return summarize_queue(user_->block().arena->segment(), user_->block().number,
                           user_->session().memory());
  };
  user_->make(7);
  const auto fast = user_->reader();
  const auto slow = user_->reader();
  put_all(0, 5);
  expect_all(*fast, 0, 5);
  expect_all(*slow, 0, 2);
  const auto open = seen();
  ASSERT_TRUE(open);
  EXPECT_TRUE(open->is_broadcast());
  EXPECT_EQ(open->limit, 7u);
  EXPECT_EQ(open->messages, 3u);
  EXPECT_EQ(open->put, 5u);
  EXPECT_EQ(open->readers, 2u);
  EXPECT_EQ(open->processes, 1u);
  EXPECT_FALSE(open->shut_down);
  EXPECT_EQ(user_->session().manager().statistics().queues, 1u);
  EXPECT_EQ(user_->session().manager().statistics().queued, 3u);
  user_->broadcast().shut_down();
  EXPECT_TRUE(seen()->shut_down);
  user_->header().limit.store(0);
  EXPECT_TRUE(seen()->damaged);
  user_->header().limit.store(7);
  slow->leave();
  EXPECT_EQ(seen()->messages, 0u);
  fast->leave();
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(BroadcastInOneProcess, IsNotOpenedInOtherMemory) {
  const HeldBlock small(user_->session().allocate(64, Strategy::file_descriptor));
  EXPECT_THROW(Broadcast(user_->session(), *small), SessionError);
  const HeldBlock zeros(
      user_->session().allocate(BroadcastHeader::bytes(3), Strategy::file_descriptor));
  EXPECT_THROW(Broadcast(user_->session(), *zeros), SessionError);
  for (const std::uint64_t limit : {std::uint64_t{0}, std::uint64_t{4}, ~std::uint64_t{0}}) {
    Broadcast::create(*zeros, {.limit = 3});
    reinterpret_cast<BroadcastHeader*>(
        zeros->arena->bytes(zeros->number, Access::read_write).data())
        ->limit.store(limit);
    EXPECT_THROW(Broadcast(user_->session(), *zeros), SessionError);
  }
  zeros.set_contents({});
}

// Each message goes to one of the threads that share a reader.
TEST_F(BroadcastInOneProcess, IsSharedByThreads) {
  constexpr std::uint64_t kMessages = 4000;
  user_->make(10);
  std::array<std::atomic<std::uint64_t>, 2> sums{};
  const std::unique_ptr<BroadcastReader> readers[] = {user_->reader(), user_->reader()};
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        Letter letter;
        while (user_->take(*readers[i % 2], letter) == Attempt::done) {
          sums.at(i % 2).fetch_add(letter.number);
        }
      });
    }
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] {
        for (std::uint64_t n = 1 + static_cast<std::uint64_t>(i); n <= kMessages; n += 2) {
          EXPECT_EQ(user_->put(n, n % 4 < 2), Attempt::done);
        }
      });
    }
    threads[4].join();
    threads[5].join();
    user_->broadcast().shut_down();
  }
  for (const auto& sum : sums) EXPECT_EQ(sum.load(), kMessages * (kMessages + 1) / 2);
  for (const auto& reader : readers) reader->leave();
  EXPECT_TRUE(nothing_is_left());
}

// A reader that is closed wakes the threads of its process that wait for it.
TEST_F(BroadcastInOneProcess, IsLeftWhileAThreadWaits) {
  user_->make(1);
  const auto reader = user_->reader();
  std::jthread waiter([&] {
    Letter letter;
    EXPECT_EQ(user_->take(*reader, letter), Attempt::closed);
  });
  EXPECT_TRUE(eventually([&] { return (user_->header().getters.load() & 1) != 0; }));
  reader->leave();
  waiter.join();
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(BroadcastInOneProcess, IsReadWhileAWriterIsStoppedWithTheLock) {
  user_->make(3);
  const auto reader = user_->reader();
  ASSERT_EQ(user_->put(1, true), Attempt::done);
  ASSERT_EQ(user_->put(2, true), Attempt::done);
  ASSERT_TRUE(OwnerLock(user_->header().tail.lock).try_lock(user_->session().slot()));
  EXPECT_EQ(user_->put(3, true, 20ms), Attempt::locked);
  EXPECT_EQ(user_->next(*reader), 1u);
  const auto other = user_->reader();
  other->leave();
  EXPECT_EQ(user_->next(*reader), 2u);
  OwnerLock(user_->header().tail.lock).unlock();
  EXPECT_EQ(user_->put(3, true), Attempt::done);
  reader->leave();
  EXPECT_TRUE(nothing_is_left());
}

}  // namespace
}  // namespace shmtensor
