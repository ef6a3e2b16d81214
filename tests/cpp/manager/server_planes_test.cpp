// Processes whose holder bits are in the second plane.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "arena/reclaim.hpp"
#include "support/server.hpp"
#include "support/shared.hpp"
#include "support/world.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::eventually;
using testing::kSmall;
using testing::live_blocks;
using testing::Peer;
using testing::Sent;
using testing::Shared;

constexpr SlotNumber kFirstOfSecondPlane = 64;

using ServerPlanes = testing::ServerTest;

// Each round has a new process in the slot. It is the only holder for a moment, and its ticket is
// the only reference after its death.
TEST_F(ServerPlanes, SlotOfSecondPlaneIsUsedAgain) {
  const Joined owner = join();
  Peer peer(*owner.memory, owner.slot);
  const auto arena = peer.make_arena();
  const Segment& segment = arena->segment();
  Message message = message_for(MessageKind::register_arena, id_);
  message.arena = segment.number();
  const Segment::File file = segment.file();
  EXPECT_EQ(refusal(owner.client->ask(message, &*file)), "");
  std::vector<Joined> crowd;
  while (crowd.size() < kFirstOfSecondPlane - 1) crowd.push_back(join());

  const Shared<Sent> sent;
  for (std::uint64_t round = 1; round <= 6; ++round) {
    const BlockNumber block = *arena->allocate(64);
    arena->bytes(block, Access::read_write)[0] = static_cast<std::byte>(round);
    const Sent there = testing::send(*arena, block);
    arena->release(block);
    Child child([&] {
      const Joined member = join();
      ASSERT_EQ(member.slot, kFirstOfSecondPlane);
      const Peer other(*member.memory, member.slot);
      const auto theirs = other.open_arena(segment);
      ASSERT_TRUE(testing::receive(*theirs, there));
      EXPECT_EQ(try_free(segment, block, *member.memory), FreeResult::none);
      *sent = testing::send(*theirs, block);
      if (round % 2 == 0) theirs->release(block);
      if (!HasFailure()) ::raise(SIGKILL);
    });
    ASSERT_EQ(child.wait(), -SIGKILL);
    EXPECT_TRUE(eventually([&] { return owner.memory->header().deaths.load() == round; }));
    EXPECT_EQ(live_blocks(segment), 1u);
    ASSERT_TRUE(testing::receive(*arena, *sent));
    EXPECT_EQ(arena->bytes(block, Access::read_only)[0], static_cast<std::byte>(round));
    arena->release(block);
    EXPECT_EQ(live_blocks(segment), 0u);
  }
}

}  // namespace
}  // namespace shmtensor
