// Another process writes anything into the memory of a queue: each operation ends, with a result or
// an exception.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "queue/owner_lock.hpp"
#include "support/queue_user.hpp"

namespace shmtensor {
namespace {

using namespace std::chrono_literals;
using testing::Letter;
using testing::QueueUser;

/// The parameter: whether the queue redelivers.
class HostileQueue : public testing::QueueTest, public ::testing::WithParamInterface<bool> {
 protected:
  /// Each operation of the queue, with a time; the child that runs it has a deadline.
  static void use(QueueUser& user, bool with_block) {
    const auto one = [](auto&& body) {
      try {
        body();
      } catch (const Error&) {
        // the expected result
      }
    };
    one([&] { static_cast<void>(user.put(1, with_block, 1ms)); });
    one([&] {
      Incoming message;
      ChannelCall call(user.session());
      static_cast<void>(
          user.attempt(call, 1ms, [&] { return user.queue().try_take(message, call); }));
    });
    static_cast<void>(user.queue().size());
    static_cast<void>(user.queue().all_done());
    one([&] { static_cast<void>(user.queue().task_done()); });
    one([&] { user.queue().complete_all(); });
    user.queue().return_all();
    user.queue().wait_until_done(1us);
    user.queue().pass_wakeup_on();
  }
  static std::span<std::byte> bytes_of(const Block& block) {
    return block.arena->bytes(block.number, Access::read_write);
  }
  /// A queue with messages in two rings, used by a process of its own.
  template <typename Attack>
  void attack(Attack&& how) {
    testing::in_child([&] {
      QueueUser user(id_);
      user.make(0, Strategy::file_descriptor, GetParam());
      for (std::uint64_t i = 0; i < 100; ++i) {
        ASSERT_EQ(user.put(i, i % 2 == 0), Attempt::done);
      }
      how(user);
    });
  }
};

INSTANTIATE_TEST_SUITE_P(Redelivers, HostileQueue, ::testing::Bool());

TEST_P(HostileQueue, RandomWordsAreNotFatal) {
  attack([](QueueUser& user) {
    if (user.queue().redelivers()) {
      for (int i = 0; i < 20; ++i) {
        Incoming message;
        ChannelCall call(user.session());
        ASSERT_EQ(user.attempt(call, 1s, [&] { return user.queue().try_take(message, call); }),
                  Attempt::done);
        if (i == 9) user.queue().return_all();
      }
    }
    // The states of kept messages are at the end of the block.
    constexpr std::size_t kStates = KeptMessages::kRecords * sizeof(KeptRecord);
    constexpr std::size_t kUsedStates = 20 * sizeof(KeptRecord);
    constexpr int kRounds = 3000;
    std::mt19937_64 random(99);
    const std::span<std::byte> first = bytes_of(user.block());
    const auto ring = *user.header().ring(1).ticket.read();
    const std::span<std::byte> second = bytes_of({user.block().arena, ring.block});
    const std::vector<std::byte> copies[] = {{first.begin(), first.end()},
                                             {second.begin(), second.end()}};
    for (int round = 0; round < kRounds; ++round) {
      for (std::uint64_t i = random() % 6; i < 6; ++i) {
        const std::span<std::byte> target = random() % 4 == 0 ? second : first;
        // The head of the queue is its most frequent target.
        const std::span<std::byte> part = random() % 2 == 0 ? target.first(640) : target;
        const bool states = user.queue().redelivers() && random() % 3 == 0;
        user.damage(states ? first.last(kStates).first(kUsedStates) : part, random);
      }
      // A lock of no process is waited for, which takes the whole time.
      if (random() % 8 != 0) {
        user.header().tail.lock.store(0);
        user.header().head.lock.store(0);
      }
      use(user, random() % 2 == 0);
      std::memcpy(first.data(), copies[0].data(), first.size());
      std::memcpy(second.data(), copies[1].data(), second.size());
    }
  });
}

TEST_P(HostileQueue, RandomRecordsOfBlocksAreNotFatal) {
  attack([](QueueUser& user) {
    std::mt19937_64 random(5);
    const auto ring = *user.header().ring(1).ticket.read();
    BlockRecord& record = user.block().arena->segment().record(ring.block);
    const std::uint64_t size = record.size.load();
    const std::uint64_t offset = record.offset.load();
    for (int round = 0; round < 500; ++round) {
      const std::uint64_t kinds[] = {~std::uint64_t{0}, std::uint64_t{1} << random() % 64,
                                     random() % 4096, random()};
      auto& word = random() % 2 == 0 ? record.size : record.offset;
      word.store(kinds[random() % 4]);
      // A larger ring than the present one may be needed, of the size that the record suggests.
      if (record.size.load() > kMiB) record.size.store(kMiB);
      user.header().tail.lock.store(0);
      user.header().head.lock.store(0);
      use(user, false);
      record.size.store(size);
      record.offset.store(offset);
    }
  });
}

TEST_P(HostileQueue, CountsThatRunAheadAreRefused) {
  attack([](QueueUser& user) {
    Letter letter;
    while (user.take(letter, 0ns) == Attempt::done) {
    }
    QueueHeader& header = user.header();
    // Messages that were never put: each has a consumed ticket, or none.
    header.tail.count.store(header.head.count.load() + (std::uint64_t{1} << 60));
    Incoming message;
    ChannelCall call(user.session());
    EXPECT_THROW(static_cast<void>(user.queue().try_take(message, call)), SessionError);
    EXPECT_GE(OwnerLock(header.head.lock).owner(), kMaxSlots) << "it is unlocked";
  });
}

TEST_P(HostileQueue, AWrongCountMakesNoRing) {
  attack([](QueueUser& user) {
    const std::uint64_t tail = user.header().tail.count.load();
    for (const std::uint64_t wrong : {tail + 200, tail + (1u << 30), std::uint64_t{1} << 60}) {
      user.header().tail.count.store(wrong);
      EXPECT_THROW(static_cast<void>(user.put(1, false)), SessionError);
    }
    user.header().tail.count.store(tail);
    user.header().ring(1).start.store(tail + 1);
    EXPECT_THROW(static_cast<void>(user.put(1, false)), SessionError);
    EXPECT_EQ(user.header().tail.ring.load(), 1u);
  });
}

TEST_P(HostileQueue, ALimitBoundsTheRings) {
  testing::in_child([&] {
    QueueUser user(id_);
    user.make(100, Strategy::file_descriptor, GetParam());
    QueueHeader& header = user.header();
    for (std::uint64_t i = 0; i < 100; ++i) ASSERT_EQ(user.put(i, false), Attempt::done);
    EXPECT_EQ(user.put(100, false, 0s), Attempt::full);
    ASSERT_EQ(header.tail.ring.load(), 1u);
    const NamedTicket ring = *header.ring(1).ticket.read();
    EXPECT_EQ(bytes_of({user.block().arena, ring.block}).size() / sizeof(MessageEntry), 128u);
    header.limit.store(~std::uint64_t{0});
    EXPECT_EQ(user.put(100, false), Attempt::done);
  });
}

// Each would wait for the lock, longer than a child may live.
TEST_P(HostileQueue, AShutdownEndsWithoutTheOwnerOfTheLock) {
  attack([](QueueUser& user) {
    const SlotNumber unused = user.session().slot() + 1;
    for (const std::uint32_t wrong : {unused + 1u, 0xffffu, 0x0001'0000u, 0x8000'ffffu}) {
      for (int i = 0; i < 2; ++i) {
        user.header().tail.lock.store(wrong);
        user.queue().shut_down();
      }
    }
    EXPECT_TRUE(user.queue().is_shut_down());
  });
}

TEST_P(HostileQueue, RingsWithoutEndAreRefused) {
  attack([](QueueUser& user) {
    QueueHeader& header = user.header();
    for (RingRecord& record : header.rings) {
      record.ticket.clear();
      record.start.store(0);
    }
    header.head.count.store(0);
    header.head.ring.store(0);
    header.tail.ring.store(0xffffffff);
    Incoming message;
    ChannelCall call(user.session());
    EXPECT_THROW(static_cast<void>(user.queue().try_take(message, call)), SessionError);
  });
}

TEST_P(HostileQueue, AnAccessOutsideOfTheTypeIsReadAndWrite) {
  attack([](QueueUser& user) {
    user.header().first_ring[0].access.store(static_cast<Access>(200));
    Incoming message;
    ChannelCall call(user.session());
    EXPECT_EQ(user.attempt(call, 1s, [&] { return user.queue().try_take(message, call); }),
              Attempt::done);
    EXPECT_EQ(message.access, Access::read_write);
  });
}

// Regression: an attempt to find the arena of a ring was repeated without end.
TEST_P(HostileQueue, ARingThatIsLostIsReportedOnceAndReplaced) {
  attack([](QueueUser& user) {
    QueueHeader& header = user.header();
    header.ring(1).ticket.write(
        {.arena = 4711, .block = 0, .generation = 1, .ticket = {.sender = 0}});
    ASSERT_EQ(user.put(1000, true), Attempt::done) << "in another ring";
    Letter letter;
    for (int i = 0; i < 31; ++i) ASSERT_EQ(user.take(letter), Attempt::done);
    EXPECT_THROW(static_cast<void>(user.take(letter)), StaleHandle);
    EXPECT_GE(OwnerLock(header.head.lock).owner(), kMaxSlots);
    EXPECT_EQ(user.queue().size(), 1u);
    ASSERT_EQ(user.take(letter), Attempt::done);
    EXPECT_EQ(letter.number, 1000u);
    // The last ring is lost, and there is no message after it.
    const std::uint32_t last = header.tail.ring.load();
    ASSERT_EQ(user.put(1001, false), Attempt::done);
    header.ring(last).ticket.write({.arena = 4712, .generation = 1, .ticket = {.sender = 0}});
    EXPECT_THROW(static_cast<void>(user.take(letter)), StaleHandle);
    EXPECT_EQ(user.take(letter, 0ns), Attempt::empty);
    ASSERT_EQ(user.put(1002, false), Attempt::done);
    ASSERT_EQ(user.take(letter), Attempt::done);
    EXPECT_EQ(letter.number, 1002u);
  });
}

TEST_P(HostileQueue, ARingInNoBlockIsRefused) {
  attack([](QueueUser& user) {
    QueueHeader& header = user.header();
    header.ring(1).ticket.write({.arena = user.block().arena->segment().number(),
                                 .block = ~0u,
                                 .generation = 1,
                                 .ticket = {.sender = 0}});
    EXPECT_THROW(static_cast<void>(user.put(1, false)), SessionError);
    // No arena has the number 0.
    header.ring(1).ticket.write({.arena = 0, .generation = 1, .ticket = {.sender = 0}});
    EXPECT_EQ(user.put(1, false), Attempt::done);
  });
}

// The message of an arena that is gone is lost; the queue continues with the next one.
TEST_P(HostileQueue, AMessageOfALostArenaIsSkipped) {
  attack([](QueueUser& user) {
    NamedTicket named = *user.header().first_ring[0].ticket.read();
    const NamedTicket right = named;
    named.arena = 4711;
    user.header().first_ring[0].ticket.write(named);
    Letter letter;
    EXPECT_THROW(static_cast<void>(user.take(letter)), StaleHandle);
    ASSERT_EQ(user.take(letter), Attempt::done);
    EXPECT_EQ(letter.number, 1u);
    user.block().arena->cancel_send(right.block, right.generation, right.ticket);
  });
}

TEST_P(HostileQueue, AReturnedMessageOfALostArenaIsSkipped) {
  if (!GetParam()) return;
  attack([](QueueUser& user) {
    Letter letter;
    ASSERT_EQ(user.take(letter), Attempt::done);
    user.queue().return_all();
    const KeptMessages kept = KeptMessages::in(bytes_of(user.block()));
    ASSERT_EQ(kept.find_first_returned(), 0u);
    NamedTicket named = *kept.message(0).ticket.read();
    const NamedTicket right = named;
    named.arena = 4711;
    kept.message(0).ticket.write(named);
    EXPECT_THROW(static_cast<void>(user.take(letter)), StaleHandle);
    ASSERT_EQ(user.take(letter), Attempt::done);
    EXPECT_EQ(letter.number, 1u);
    user.block().arena->cancel_send(right.block, right.generation, right.ticket);
  });
}

// The process that damaged the queue, or uses it, dies: the manager continues.
TEST_P(HostileQueue, DamageIsNotFatalToTheManager) {
  std::mt19937_64 random(31);
  for (int round = 0; round < 30; ++round) {
    testing::in_child([&] {
      QueueUser user(id_);
      user.make(0, Strategy::file_descriptor, GetParam());
      for (std::uint64_t i = 0; i < 60; ++i) ASSERT_EQ(user.put(i, i % 2 == 0), Attempt::done);
      const std::span<std::byte> bytes = bytes_of(user.block());
      for (int i = 0; i < 8; ++i) {
        const std::uint64_t value = i % 2 == 0 ? random() : std::uint64_t{1} << random() % 64;
        const std::size_t size = i % 2 == 0 ? 640 : bytes.size();
        std::memcpy(bytes.data() + random() % (size / 8) * 8, &value, sizeof value);
      }
      user.header().tail.lock.store(user.session().slot() + 1u);
      user.header().head.lock.store(user.session().slot() + 1u);
    });
    random.discard(16);
    ASSERT_EQ(user_->session().manager().statistics().processes, 1u);
  }
}

}  // namespace
}  // namespace shmtensor
