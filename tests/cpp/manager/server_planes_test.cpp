// Planes of holder bits that no process uses any more.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "arena/reclaim.hpp"
#include "os/shm_object.hpp"
#include "support/server.hpp"
#include "support/shared.hpp"
#include "support/world.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::Client;
using testing::eventually;
using testing::kSmall;
using testing::live_blocks;
using testing::Peer;
using testing::Sent;
using testing::Shared;
using testing::Turn;

constexpr std::uint32_t kFirst = 1;
constexpr std::uint32_t kBoth = 3;

/// A member with an arena, and 63 others, so that the next one has a slot of the second plane.
class ServerPlanes : public testing::ServerTest {
 protected:
  void SetUp() override {
    owner_.emplace(join());
    peer_.emplace(*owner_->memory, owner_->slot);
    arena_ = make_arena(1, Strategy::file_descriptor);
    while (crowd_.size() < 63) crowd_.push_back(join());
  }

  std::unique_ptr<Arena> make_arena(ArenaNumber number, Strategy strategy) {
    auto arena = std::make_unique<Arena>(
        Segment::create(id_, number, owner_->slot, owner_->incarnation, strategy, kSmall),
        peer_->member(), &peer_->budget());
    register_arena(arena->segment());
    return arena;
  }
  void register_arena(const Segment& segment) const {
    Message message = message_for(MessageKind::register_arena, id_);
    message.arena = segment.number();
    const Segment::File file = segment.file();
    const bool named = segment.strategy() == Strategy::file_system;
    EXPECT_EQ(refusal(owner_->client->ask(message, named ? nullptr : &*file)), "");
  }
  /// Calls `use(arena)` in a process that has a slot of the second plane, and then is killed.
  template <typename Use>
  void use_in_second_plane(Use&& use) {
    Child child([&] {
      const Joined member = join();
      ASSERT_EQ(plane_of(member.slot), 1u);
      const Peer peer(*member.memory, member.slot);
      const auto arena = peer.open_arena(arena_->segment());
      EXPECT_EQ(arena->segment().planes(), kBoth);
      use(*arena);
      if (!::testing::Test::HasFailure()) ::raise(SIGKILL);
    });
    EXPECT_EQ(child.wait(), -SIGKILL);
  }
  void await_deaths(std::uint64_t count) const {
    EXPECT_TRUE(eventually([&] { return owner_->memory->header().deaths.load() == count; }));
  }
  /// Makes the manager check which planes to retire, and waits until it has.
  void collect() const {
    Message message = message_for(MessageKind::collect, id_);
    message.number = ~std::uint64_t{0};  // no message is as old as that
    EXPECT_EQ(refusal(owner_->client->ask(message)), "");
    static_cast<void>(statistics(*owner_->client));  // in the next turn of its loop
  }
  [[nodiscard]] std::uint32_t planes() const { return arena_->segment().planes(); }
  [[nodiscard]] bool has_planes(std::uint32_t expected) const {
    return eventually([&] { return planes() == expected; });
  }

  std::optional<Joined> owner_;
  std::optional<Peer> peer_;
  std::unique_ptr<Arena> arena_;
  std::vector<Joined> crowd_;
  const Shared<Sent> sent_;
};

TEST_F(ServerPlanes, UnusedPlaneIsRetiredInEveryArena) {
  const auto named = make_arena(2, Strategy::file_system);
  named->segment().ensure_plane(64);
  use_in_second_plane([](Arena&) {});
  EXPECT_TRUE(has_planes(kFirst));
  EXPECT_TRUE(eventually([&] { return named->segment().planes() == kFirst; }));
  EXPECT_EQ(arena_->segment().planes_made(), kBoth);
  unlink_shm(arena_name(id_, 2));
}

TEST_F(ServerPlanes, PlaneOfReservedSlotStays) {
  Client reserved(id_);
  ASSERT_EQ(reserved.hello(Join::existing)->message.slot, 64u);
  arena_->segment().ensure_plane(64);
  collect();
  EXPECT_EQ(planes(), kBoth);
  reserved.close();
  EXPECT_TRUE(has_planes(kFirst));
}

// Each round has a new process in the slot. It is the only holder for a moment, and its ticket is
// the only reference after its death.
TEST_F(ServerPlanes, BlockIsKeptAcrossRetirements) {
  for (std::uint64_t round = 1; round <= 20; ++round) {
    const BlockNumber block = *arena_->allocate(64);
    arena_->bytes(block, Access::read_write)[0] = static_cast<std::byte>(round);
    const Sent there = testing::send(*arena_, block);
    arena_->release(block);
    use_in_second_plane([&](Arena& arena) {
      ASSERT_TRUE(testing::receive(arena, there));
      ASSERT_TRUE(arena_->segment().holders(1, block).load() != 0);
      *sent_ = testing::send(arena, block);
      if (round % 2 == 0) arena.release(block);
    });
    await_deaths(round);
    collect();
    EXPECT_EQ(planes(), kBoth) << "a message of a slot of the plane is unread";
    EXPECT_EQ(live_blocks(arena_->segment()), 1u);
    ASSERT_TRUE(testing::receive(*arena_, *sent_));
    EXPECT_EQ(arena_->bytes(block, Access::read_only)[0], static_cast<std::byte>(round));
    collect();
    EXPECT_EQ(planes(), kFirst);
    EXPECT_EQ(live_blocks(arena_->segment()), 1u);
    arena_->release(block);
    EXPECT_EQ(live_blocks(arena_->segment()), 0u);
  }
}

// No event reports that the message is read.
TEST_F(ServerPlanes, PlaneIsRetiredAfterItsLastMessage) {
  const BlockNumber block = *arena_->allocate(64);
  const Sent there = testing::send(*arena_, block);
  use_in_second_plane([&](Arena& arena) {
    ASSERT_TRUE(testing::receive(arena, there));
    *sent_ = testing::send(arena, block);
  });
  await_deaths(1);
  EXPECT_EQ(planes(), kBoth);
  arena_->release(block);
  ASSERT_TRUE(testing::receive(*arena_, *sent_));
  EXPECT_TRUE(has_planes(kFirst));
  arena_->release(block);
  EXPECT_EQ(live_blocks(arena_->segment()), 0u);
}

TEST_F(ServerPlanes, HolderInReannouncedPlaneKeepsTheBlock) {
  use_in_second_plane([](Arena&) {});
  ASSERT_TRUE(has_planes(kFirst));
  const BlockNumber block = *arena_->allocate(64);
  const Sent there = testing::send(*arena_, block);
  arena_->release(block);
  use_in_second_plane([&](Arena& arena) {
    ASSERT_TRUE(testing::receive(arena, there));
    EXPECT_EQ(try_free(arena_->segment(), block, *owner_->memory), FreeResult::none);
  });
  EXPECT_TRUE(eventually([&] { return live_blocks(arena_->segment()) == 0; }));
  EXPECT_TRUE(has_planes(kFirst));
}

TEST_F(ServerPlanes, NextManagerRetiresPlanes) {
  arena_->segment().ensure_plane(64);  // by a process that died without a manager
  server_->kill();
  server_ = std::make_unique<testing::ServerProcess>(id_);
  owner_->client = std::make_unique<Client>(id_);
  Message message = message_for(MessageKind::hello, id_);
  message.slot = owner_->slot;
  message.incarnation = owner_->incarnation;
  EXPECT_EQ(refusal(owner_->client->ask(message, &owner_->memory->file())), "");
  register_arena(arena_->segment());
  EXPECT_TRUE(has_planes(kFirst));
}

}  // namespace
}  // namespace shmtensor
