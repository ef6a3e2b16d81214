// A process takes over the transit table of a dead one.
#include <gtest/gtest.h>

#include <array>

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

}  // namespace
}  // namespace shmtensor
