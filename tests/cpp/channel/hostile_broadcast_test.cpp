// Another process writes anything into the memory of a broadcast: each operation ends, with a
// result or an exception.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "queue/summary.hpp"
#include "support/broadcast_user.hpp"

namespace shmtensor {
namespace {

using namespace std::chrono_literals;
using testing::BroadcastUser;
using testing::eventually;

class HostileBroadcast : public testing::BroadcastTest {
 protected:
  /// For a lock of no process, which is often waited for.
  static constexpr auto kWait = 100us;
  /// Each operation, with a time; the child that runs it has a deadline.
  static void use(BroadcastUser& user, BroadcastReader& reader, bool with_block) {
    const auto one = [](auto&& body) {
      try {
        body();
      } catch (const Error&) {
        // the expected result
      }
    };
    one([&] { static_cast<void>(user.put(1, with_block, kWait)); });
    one([&] {
      Incoming message;
      ChannelCall call(user.session());
      for (int i = 0; i < 3; ++i) {
        const Attempt result = reader.try_take(message, call);
        if (result != Attempt::unmapped && result != Attempt::empty) break;
        reader.prepare(result, call, kWait);
      }
    });
    static_cast<void>(reader.lag());
    static_cast<void>(user.broadcast().lag());
    static_cast<void>(user.broadcast().readers());
    user.broadcast().wait_for_readers(1, 1us);
    const Segment& segment = user.block().arena->segment();
    const auto seen = summarize_queue(segment, user.block().number, user.session().memory());
    if (seen && !seen->damaged) {
      EXPECT_TRUE(seen->is_broadcast());
      EXPECT_LE(seen->messages, seen->limit);
      EXPECT_LE(seen->readers, BroadcastHeader::kReaders);
    }
    one([&] { static_cast<void>(BroadcastReader(user.broadcast())); });
  }
};

TEST_F(HostileBroadcast, RandomWordsAreNotFatal) {
  for (const OnFull on_full : {OnFull::block, OnFull::drop_oldest, OnFull::raise}) {
    testing::in_child([&] {
      BroadcastUser user(id_);
      user.make(10, on_full);
      const auto reader = user.reader();
      const auto other = user.reader();
      for (std::uint64_t i = 0; i < 10; ++i) ASSERT_EQ(user.put(i, i % 2 == 0), Attempt::done);
      constexpr int kRounds = 2000;
      std::mt19937_64 random(99 + static_cast<std::uint64_t>(on_full));
      const std::span<std::byte> bytes = user.bytes();
      const std::vector<std::byte> before(bytes.begin(), bytes.end());
      for (int round = 0; round < kRounds; ++round) {
        for (std::uint64_t i = random() % 6; i < 6; ++i) {
          // The header, the first readers, or the messages.
          const std::size_t ring = sizeof(BroadcastHeader);
          const std::uint64_t part = random() % 3;
          user.damage(part == 2 ? bytes.subspan(ring) : bytes.first(part == 0 ? 320 : 1024),
                      random);
        }
        // A lock of no process is waited for, which takes the whole time.
        if (random() % 8 != 0) user.header().tail.lock.store(0);
        use(user, *reader, random() % 2 == 0);
        std::memcpy(bytes.data(), before.data(), bytes.size());
      }
    });
  }
  EXPECT_TRUE(eventually([&] { return user_->session().manager().statistics().processes == 1; }));
}

// The manager repairs it after a death, and drains it.
TEST_F(HostileBroadcast, IsRepairedWithoutHarm) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 30; ++round) {
    const int end = testing::exit_of([&] {
      BroadcastUser user(id_);
      user.make(10);
      const auto reader = user.reader();
      for (std::uint64_t i = 0; i < 8; ++i) ASSERT_EQ(user.put(i, i % 2 == 0), Attempt::done);
      const std::span<std::byte> bytes = user.bytes();
      for (int i = 0; i < 40; ++i) user.damage(round % 2 == 0 ? bytes.first(512) : bytes, random);
      user.header().magic.store(kBroadcastMagic);
      user.header().tail.lock.store(user.session().slot() + 1u);
      ::kill(::getpid(), SIGKILL);
    });
    EXPECT_EQ(end, -SIGKILL);
    random.discard(100);
  }
  EXPECT_TRUE(eventually([&] { return user_->session().manager().statistics().processes == 1; }))
      << "the manager lives";
}

}  // namespace
}  // namespace shmtensor
