#include "arena/transit.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <new>
#include <string>

#include "base/error.hpp"
#include "os/clock.hpp"
#include "support/scarce_heap.hpp"
#include "support/world_fixture.hpp"

namespace shmtensor {
namespace {

constexpr SlotNumber kSender = 2;

class TransitTest : public testing::WorldTest {
 protected:
  static constexpr ArenaNumber kArena = 5;
  [[nodiscard]] bool live(BlockNumber block, Generation generation) const {
    return table_.has_live(kArena, block, generation);
  }
  bool claim(const Ticket& ticket, BlockNumber block, Generation generation) {
    return table_.claim(ticket, kArena, block, generation);
  }
  [[nodiscard]] int count_live() {
    int count = 0;
    table_.for_each_live([&](std::uint32_t, const TicketGroup&, std::uint32_t bits) {
      count += std::popcount(bits);
    });
    return count;
  }

  TransitTable& table_ = memory_->transit(kSender);
  TransitWriter writer_{*memory_, kSender};
};

TEST_F(TransitTest, TicketIsLiveUntilClaimed) {
  EXPECT_FALSE(live(9, 4));
  const Ticket ticket = writer_.issue(kArena, 9, 4);
  EXPECT_EQ(ticket.sender, kSender);
  EXPECT_TRUE(live(9, 4));
  EXPECT_EQ(count_live(), 1);
  EXPECT_TRUE(claim(ticket, 9, 4));
  EXPECT_FALSE(live(9, 4));
  EXPECT_EQ(count_live(), 0);
  EXPECT_FALSE(claim(ticket, 9, 4)) << "twice";
}

TEST_F(TransitTest, TicketIsForOneGenerationOfOneBlock) {
  static_cast<void>(writer_.issue(kArena, 9, 4));
  EXPECT_FALSE(live(9, 3));
  EXPECT_FALSE(live(9, 5));
  EXPECT_FALSE(live(10, 4));
  EXPECT_FALSE(table_.has_live(kArena + 1, 9, 4));
  EXPECT_FALSE(memory_->transit(kSender + 1).has_live(kArena, 9, 4));
}

TEST_F(TransitTest, InvalidClaimFailsWithoutEffect) {
  const Ticket ticket = writer_.issue(kArena, 9, 4);
  const auto with = [&](auto&& change) {
    Ticket wrong = ticket;
    change(wrong);
    return claim(wrong, 9, 4);
  };
  EXPECT_FALSE(claim(ticket, 8, 4));
  EXPECT_FALSE(claim(ticket, 9, 3));
  EXPECT_FALSE(table_.claim(ticket, kArena + 1, 9, 4));
  EXPECT_FALSE(with([](Ticket& t) { ++t.serial; }));
  EXPECT_FALSE(with([](Ticket& t) { --t.serial; }));
  EXPECT_FALSE(with([](Ticket& t) { ++t.bit; }));
  EXPECT_FALSE(with([](Ticket& t) { ++t.group; }));
  EXPECT_FALSE(with([](Ticket& t) { t.group = ~0u; }));
  EXPECT_TRUE(live(9, 4));
  EXPECT_TRUE(claim(ticket, 9, 4));
}

TEST_F(TransitTest, GroupHoldsThirtyTwoTickets) {
  std::vector<Ticket> tickets;
  for (int i = 0; i < 33; ++i) tickets.push_back(writer_.issue(kArena, 9, 4));
  for (std::uint8_t i = 0; i < 32; ++i) {
    EXPECT_EQ(tickets[i].group, tickets[0].group);
    EXPECT_EQ(tickets[i].serial, tickets[0].serial);
    EXPECT_EQ(tickets[i].bit, i);
  }
  EXPECT_NE(tickets[32].group, tickets[0].group);
  EXPECT_EQ(tickets[32].bit, 0);
  EXPECT_EQ(count_live(), 33);
  for (const Ticket& ticket : tickets) {
    EXPECT_TRUE(live(9, 4));
    EXPECT_TRUE(claim(ticket, 9, 4));
  }
  EXPECT_FALSE(live(9, 4));
}

TEST_F(TransitTest, TicketsOfArgumentsEndWithTheirSender) {
  const Ticket message = writer_.issue(kArena, 9, 4);
  const Ticket argument = writer_.issue(kArena, 9, 4, TicketOf::arguments);
  const Ticket loaded = writer_.issue(kArena, 9, 4, TicketOf::arguments);
  const Ticket named = writer_.issue(kArena, 9, 4, TicketOf::name);
  EXPECT_TRUE(claim(loaded, 9, 4));
  for (int i = 0; i < 2; ++i) {
    table_.end_sender();
    EXPECT_EQ(count_live(), 2);
  }
  EXPECT_FALSE(claim(argument, 9, 4));
  EXPECT_TRUE(claim(message, 9, 4));
  EXPECT_TRUE(claim(named, 9, 4));
}

TEST_F(TransitTest, BitIsIssuedOncePerGroup) {
  const Ticket first = writer_.issue(kArena, 9, 4);
  EXPECT_TRUE(claim(first, 9, 4));
  const Ticket second = writer_.issue(kArena, 9, 4);
  // The same bytes loaded a second time must not take the second message's ticket.
  EXPECT_FALSE(claim(first, 9, 4));
  EXPECT_TRUE(claim(second, 9, 4));
}

TEST_F(TransitTest, GenerationsDoNotShareAGroup) {
  const Ticket old = writer_.issue(kArena, 9, 4);
  const Ticket fresh = writer_.issue(kArena, 9, 5);
  EXPECT_NE(old.group, fresh.group);
  EXPECT_TRUE(claim(old, 9, 4));
  EXPECT_TRUE(live(9, 5));
  EXPECT_FALSE(live(9, 4));
}

TEST_F(TransitTest, ConsumedGroupsAreReused) {
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    ASSERT_TRUE(claim(writer_.issue(kArena, i, i), i, i));
  }
  EXPECT_LT(table_.group_count.load(), 64u) << "there was one unread message at a time";
  EXPECT_EQ(count_live(), 0);
}

// A group is in cache lines that its ticket's readers have written, as is the bucket.
TEST_F(TransitTest, BlockUsesItsConsumedGroupAgain) {
  constexpr std::uint32_t kBlocks = 100;
  std::vector<Ticket> tickets;
  for (BlockNumber i = 0; i < kBlocks; ++i) tickets.push_back(writer_.issue(kArena, i, 1));
  for (BlockNumber i = 0; i < kBlocks; ++i) ASSERT_TRUE(claim(tickets[i], i, 1));
  for (const BlockNumber i : {50u, 49u, 99u, 0u}) {
    const Ticket again = writer_.issue(kArena, i, 2);
    EXPECT_EQ(again.group, tickets[i].group);
    EXPECT_NE(again.serial, tickets[i].serial);
    EXPECT_TRUE(live(i, 2));
  }
  EXPECT_EQ(table_.group_count.load(), kBlocks);
}

TEST_F(TransitTest, ExhaustedHeapLosesNoGroup) {
  const Ticket first = writer_.issue(kArena, 1, 1);
  ASSERT_TRUE(claim(first, 1, 1));
  {
    const testing::ScarceHeap heap(0);
    EXPECT_THROW(static_cast<void>(writer_.issue(kArena, 2, 1)), std::bad_alloc);
  }
  EXPECT_EQ(writer_.issue(kArena, 2, 1).group, first.group);
}

TEST_F(TransitTest, TableSizeFollowsUnreadMessages) {
  constexpr std::uint32_t kInFlight = 1'000;
  std::vector<Ticket> tickets(kInFlight);
  for (std::uint32_t i = 0; i < 30 * kInFlight; ++i) {
    const std::uint32_t place = i % kInFlight;
    if (i >= kInFlight) {
      ASSERT_TRUE(claim(tickets[place], i - kInFlight, 1));
    }
    tickets[place] = writer_.issue(kArena, i, 1);
  }
  EXPECT_LT(table_.group_count.load(), 2 * kInFlight);
  EXPECT_EQ(count_live(), static_cast<int>(kInFlight));
}

TEST_F(TransitTest, BlocksInUnreadMessagesAreLimited) {
  const Ticket first = writer_.issue(kArena, 0, 1);
  for (BlockNumber block = 1; block < TransitTable::kGroups; ++block) {
    static_cast<void>(writer_.issue(kArena, block, 1));
  }
  try {
    static_cast<void>(writer_.issue(kArena, TransitTable::kGroups, 1));
    ADD_FAILURE() << "there was one more";
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what()).find("read or delete the queues"), std::string::npos);
  }
  ASSERT_TRUE(claim(first, 0, 1));
  EXPECT_EQ(writer_.issue(kArena, TransitTable::kGroups, 1).group, first.group) << "it was read";
}

TEST_F(TransitTest, TicketOfReusedGroupIsStale) {
  const Ticket old = writer_.issue(kArena, 9, 4);
  ASSERT_TRUE(claim(old, 9, 4));
  Ticket ticket;
  std::uint32_t block = 100;
  do {
    ticket = writer_.issue(kArena, ++block, 1);
    ASSERT_TRUE(claim(ticket, block, 1));
  } while (ticket.group != old.group);
  // Even for the same block and generation.
  while ((ticket = writer_.issue(kArena, 9, 4)).group != old.group) {
  }
  EXPECT_EQ(ticket.bit, old.bit);
  EXPECT_NE(ticket.serial, old.serial);
  EXPECT_FALSE(claim(old, 9, 4));
  EXPECT_TRUE(live(9, 4));
}

TEST_F(TransitTest, BlocksSharingABucketAreDistinguished) {
  std::vector<Ticket> tickets;
  for (std::uint32_t i = 0; i < 50; ++i) {
    tickets.push_back(writer_.issue(kArena, 7 + i * TransitTable::kBuckets, 1));
  }
  for (std::uint32_t i = 0; i < 50; i += 2) {
    EXPECT_TRUE(claim(tickets[i], 7 + i * TransitTable::kBuckets, 1));
  }
  for (std::uint32_t i = 0; i < 50; ++i) {
    EXPECT_EQ(live(7 + i * TransitTable::kBuckets, 1), i % 2 == 1) << i;
  }
}

TEST_F(TransitTest, GroupRecordsTimeOfLastTicket) {
  const std::uint32_t before = coarse_seconds();
  static_cast<void>(writer_.issue(kArena, 9, 4));
  table_.for_each_live([&](std::uint32_t, const TicketGroup& group, std::uint32_t) {
    EXPECT_EQ(group.block.load(), TransitTable::block_key(kArena, 9));
    EXPECT_EQ(group.mark.load() >> 32, 4u);
    EXPECT_GE(static_cast<std::uint32_t>(group.mark.load()), before);
    EXPECT_LE(static_cast<std::uint32_t>(group.mark.load()), coarse_seconds());
  });
}

// A process of the same user may write anything. The search ends, and the block remains.
TEST_F(TransitTest, CorruptChainKeepsTheBlock) {
  std::atomic<std::uint64_t>& bucket =
      table_.buckets[TransitTable::bucket_of(TransitTable::block_key(kArena, 9))];
  bucket.store(~std::uint64_t{0});
  EXPECT_TRUE(live(9, 4)) << "an index outside of the table";
  bucket.store(std::uint64_t{4} << 32);
  table_.groups[3].next.store(std::uint64_t{4} << 32);
  EXPECT_TRUE(live(9, 4)) << "a cycle";
  bucket.store(std::uint64_t{4} << 32 | 77);
  EXPECT_TRUE(live(9, 4)) << "a serial that is never issued";
}

// Regression: the sender wrote past its bookkeeping, or looped indefinitely.
TEST_F(TransitTest, SenderToleratesCorruptChain) {
  constexpr BlockNumber kBlock = 9;
  const std::uint64_t key = TransitTable::block_key(kArena, kBlock);
  std::atomic<std::uint64_t>& bucket = table_.buckets[TransitTable::bucket_of(key)];
  static_cast<void>(writer_.issue(kArena, kBlock, 4));
  const auto issue_and_claim = [&] {
    const Ticket ticket = writer_.issue(kArena, kBlock, 4);
    EXPECT_LT(ticket.group, table_.group_count.load());
    EXPECT_TRUE(claim(ticket, kBlock, 4));
  };
  for (const std::uint32_t stray : {5'000u, TransitTable::kGroups, ~2u}) {
    if (stray < TransitTable::kGroups) {  // appears to be a group of this block
      table_.groups[stray].block.store(key);
      table_.groups[stray].mark.store(std::uint64_t{4} << 32);
    }
    bucket.store(std::uint64_t{stray + 1} << 32);
    issue_and_claim();
  }
  const Ticket other = writer_.issue(kArena, kBlock + TransitTable::kBuckets, 4);
  table_.groups[other.group].next.store(bucket.load());
  bucket.store(std::uint64_t{other.group + 1} << 32);
  for (int i = 0; i < 100; ++i) issue_and_claim();
}

}  // namespace
}  // namespace shmtensor
