// Readers and claimers while the sender reuses groups. All use one mapping, so that the thread
// sanitizer sees the same addresses.
#include <gtest/gtest.h>

#include <thread>

#include "support/world_fixture.hpp"

namespace shmtensor {
namespace {

constexpr BlockNumber kPinned = 7;

// Blocks of one bucket, so that every group is in the chain that the readers walk.
constexpr BlockNumber in_bucket(std::uint32_t i) {
  return kPinned + (i + 1) * TransitTable::kBuckets;
}

class TransitRace : public testing::WorldTest {
 protected:
  static constexpr ArenaNumber kArena = 5;
  TransitTable& table_ = memory_->transit(0);
  TransitWriter writer_{*memory_, 0};
  std::atomic<bool> stop_{false};
};

TEST_F(TransitRace, LiveTicketIsVisibleDuringReuse) {
  std::atomic<std::uint64_t> looks{0};
  std::atomic<std::uint64_t> missed{0};
  std::atomic<std::uint64_t> phantoms{0};
  const Ticket pinned = writer_.issue(kArena, kPinned, 1);
  {
    std::vector<std::jthread> readers;
    for (int i = 0; i < 3; ++i) {
      readers.emplace_back([&] {
        while (!stop_.load(std::memory_order_relaxed)) {
          if (!table_.has_live(kArena, kPinned, 1)) missed.fetch_add(1);
          if (table_.has_live(kArena, kPinned, 2)) phantoms.fetch_add(1);
          looks.fetch_add(1, std::memory_order_relaxed);
        }
      });
    }
    // A few live tickets before and after the pinned one, consumed in another order than issued.
    std::array<Ticket, 24> tickets{};
    for (std::uint32_t i = 0; i < 60'000 || looks.load() < 2'000; ++i) {
      const std::uint32_t place = i * 7 % 24;
      const BlockNumber block = in_bucket(place);
      if (tickets[place].sender != kNoSlot) table_.claim(tickets[place], kArena, block, 1);
      tickets[place] = writer_.issue(kArena, block, 1);
      if (i % 3 == 0) {
        table_.claim(tickets[place], kArena, block, 1);
        tickets[place] = {};
      }
    }
    stop_.store(true);
  }
  EXPECT_EQ(missed.load(), 0u) << "of " << looks.load();
  EXPECT_EQ(phantoms.load(), 0u) << "of " << looks.load();
  EXPECT_TRUE(table_.claim(pinned, kArena, kPinned, 1));
  EXPECT_LT(table_.group_count.load(), 200u) << "the groups were reused";
}

TEST_F(TransitRace, ExactlyOneClaimSucceeds) {
  constexpr int kRounds = 3'000;
  std::atomic<int> round{0};
  std::atomic<int> arrived{0};
  std::atomic<int> claimed{0};
  Ticket ticket;  // published by `round`
  const auto compete = [&] {
    for (int i = 1; i <= kRounds; ++i) {
      while (round.load() != i) std::this_thread::yield();
      if (table_.claim(ticket, kArena, 3, 1)) claimed.fetch_add(1);
      arrived.fetch_add(1);
    }
  };
  {
    std::jthread a(compete);
    std::jthread b(compete);
    for (int i = 1; i <= kRounds; ++i) {
      ticket = writer_.issue(kArena, 3, 1);
      arrived.store(0);
      round.store(i);
      while (arrived.load() != 2) std::this_thread::yield();
      EXPECT_EQ(claimed.exchange(0), 1);
    }
  }
  EXPECT_FALSE(table_.has_live(kArena, 3, 1));
}

TEST_F(TransitRace, SeveralThreadsIssueDistinctTickets) {
  constexpr std::uint32_t kEach = 2'000;
  std::array<std::vector<Ticket>, 3> issued;
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        for (std::uint32_t i = 0; i < kEach; ++i) {
          issued[t].push_back(writer_.issue(kArena, i % 5, 1));
        }
      });
    }
  }
  for (const auto& tickets : issued) {
    for (std::uint32_t i = 0; i < kEach; ++i) {
      EXPECT_TRUE(table_.claim(tickets[i], kArena, i % 5, 1)) << "two processes received it";
    }
  }
  for (BlockNumber block = 0; block < 5; ++block) EXPECT_FALSE(table_.has_live(kArena, block, 1));
}

}  // namespace
}  // namespace shmtensor
