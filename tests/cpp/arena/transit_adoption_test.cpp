// A process takes over the transit table of a dead one.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <random>
#include <thread>

#include "support/child.hpp"
#include "support/shared.hpp"
#include "support/world_fixture.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::Shared;

class TransitAdoption : public testing::WorldTest {
 protected:
  static constexpr ArenaNumber kArena = 5;
  TransitTable& table_ = memory_->transit(0);
};

TEST_F(TransitAdoption, TicketsOutliveTheirSender) {
  Shared<std::array<Ticket, 40>> tickets;
  Child sender([&] {
    TransitWriter writer(*memory_, 0);
    for (Ticket& ticket : *tickets) ticket = writer.issue(kArena, 9, 4);
    ::raise(SIGKILL);
  });
  EXPECT_EQ(sender.wait(), -SIGKILL);

  TransitWriter writer(*memory_, 0);
  const Ticket fresh = writer.issue(kArena, 9, 4);
  EXPECT_NE(fresh.group, (*tickets)[39].group) << "no ticket is added to a dead process's groups";
  for (const Ticket& ticket : *tickets) {
    EXPECT_TRUE(table_.claim(ticket, kArena, 9, 4));
    EXPECT_FALSE(table_.claim(ticket, kArena, 9, 4));
  }
  EXPECT_TRUE(table_.has_live(kArena, 9, 4));
  EXPECT_TRUE(table_.claim(fresh, kArena, 9, 4));
  EXPECT_FALSE(table_.has_live(kArena, 9, 4));
}

TEST_F(TransitAdoption, DrainedTableIsReused) {
  {
    TransitWriter before(*memory_, 0);
    for (BlockNumber block = 0; block < 200; ++block) {
      const Ticket ticket = before.issue(kArena, block, 1);
      if (block != 50) {
        ASSERT_TRUE(table_.claim(ticket, kArena, block, 1));
      }
    }
  }
  const std::uint32_t count = table_.group_count.load();
  TransitWriter after(*memory_, 0);
  for (BlockNumber block = 1000; block < 1200; ++block) {
    ASSERT_TRUE(table_.claim(after.issue(kArena, block, 1), kArena, block, 1));
    EXPECT_TRUE(table_.has_live(kArena, 50, 1));
  }
  EXPECT_LE(table_.group_count.load(), count + 8);
}

TEST_F(TransitAdoption, KillAtAnyInstantLeavesWorkingTable) {
  struct Log {
    std::atomic<std::uint32_t> issued;
    std::array<Ticket, 8> pinned;
    std::atomic<std::uint32_t> pinned_count;
  };
  std::mt19937 random(7);
  Ticket survivor;
  for (int round = 0; round < 25; ++round) {
    Shared<Log> log;
    const auto base = static_cast<BlockNumber>(1'000'000 + round * 100);
    Child sender([&] {
      TransitWriter writer(*memory_, 0);
      for (std::uint32_t i = 0;; ++i) {
        if (i % 5'000 == 0 && log->pinned_count.load() < 8) {
          const std::uint32_t n = log->pinned_count.load();
          log->pinned[n] = writer.issue(kArena, base + n, 1);
          log->pinned_count.store(n + 1);
        }
        const BlockNumber block = i * 3 % 70'000;
        table_.claim(writer.issue(kArena, block, 2), kArena, block, 2);
        log->issued.store(i);
      }
    });
    EXPECT_TRUE(testing::eventually([&] { return log->issued.load() > 100; }));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
    sender.kill_and_reap();

    // Each published ticket can be claimed once; later ones do not affect it.
    TransitWriter writer(*memory_, 0);
    for (BlockNumber block = 0; block < 300; ++block) {
      ASSERT_TRUE(table_.claim(writer.issue(kArena, block, 3), kArena, block, 3));
    }
    const std::uint32_t count = log->pinned_count.load();
    ASSERT_GT(count, 0u);
    for (std::uint32_t n = 0; n < count; ++n) {
      EXPECT_TRUE(table_.has_live(kArena, base + n, 1));
      EXPECT_TRUE(table_.claim(log->pinned[n], kArena, base + n, 1));
      EXPECT_FALSE(table_.has_live(kArena, base + n, 1));
    }
    // At most the ticket that was being issued at the kill is left.
    int left = 0;
    table_.for_each_live([&](std::uint32_t index, const TicketGroup& group, std::uint32_t bits) {
      EXPECT_EQ(bits & (bits - 1), 0u);
      const Ticket ticket{0, static_cast<std::uint8_t>(std::countr_zero(bits)), index,
                          static_cast<std::uint32_t>(group.word.load() >> 32)};
      EXPECT_TRUE(table_.claim(ticket, kArena, static_cast<BlockNumber>(group.block.load()),
                               static_cast<Generation>(group.mark.load() >> 32)));
      ++left;
    });
    EXPECT_LE(left, 2);
  }
  EXPECT_LT(table_.group_count.load(), 2'000u) << "kills do not make the table grow";
}

}  // namespace
}  // namespace shmtensor
