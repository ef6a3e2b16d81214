// The life of a block in several processes, some of which are killed.
#include <gtest/gtest.h>

#include <array>

#include "arena/arena.hpp"
#include "arena/reclaim.hpp"
#include "os/process.hpp"
#include "os/procfs.hpp"
#include "os/shm_object.hpp"
#include "support/child.hpp"
#include "support/shared.hpp"
#include "support/world_fixture.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::Peer;
using testing::receive;
using testing::send;
using testing::Sent;
using testing::Shared;
using testing::Turn;
using testing::word_of;

struct Mail {
  Turn turn;
  std::array<Sent, 8> sent;
};

/// One body for both strategies; the child opens the arena again, as an unrelated process would.
class ArenaProcesses : public testing::WorldTest, public ::testing::WithParamInterface<Strategy> {
 protected:
  ~ArenaProcesses() override { unlink_shm(arena_name(memory_->id(), 1)); }
  [[nodiscard]] std::unique_ptr<SessionMemory> memory_again() const {
    return SessionMemory::open(memory_->id(), memory_->file().duplicate());
  }
  [[nodiscard]] bool is_live(BlockNumber block) const { return word_of(*arena_, block).live(); }
  [[nodiscard]] int sweep_after(SlotNumber dead) const {
    int freed = 0;
    sweep(
        arena_->segment(), *memory_, dead, [](BlockNumber) {},
        [&](BlockNumber block, FreeResult) {
          arena_->segment().freed().mark(block);
          ++freed;
        });
    memory_->header().deaths.fetch_add(1);
    return freed;
  }

  Peer peer_{*memory_, 0};
  const std::unique_ptr<Arena> arena_ = peer_.make_arena(GetParam());
  const Shared<Mail> mail_;
};

TEST_P(ArenaProcesses, SendsReadsRepliesAndReleases) {
  const BlockNumber block = *arena_->allocate(100'000);
  std::byte* const data = arena_->bytes(block, Access::read_write).data();
  data[77'777] = std::byte{1};
  mail_->sent[0] = send(*arena_, block);
  Child reader([&] {
    const auto memory = memory_again();
    Peer peer(*memory, 1);
    const auto arena = peer.open_arena(arena_->segment());
    ASSERT_TRUE(receive(*arena, mail_->sent[0]));
    std::byte* const bytes = arena->bytes(block, Access::read_write).data();
    EXPECT_EQ(bytes[77'777], std::byte{1});
    bytes[0] = std::byte{2};
    mail_->turn.set(1);
    ASSERT_TRUE(mail_->turn.reaches(2));
    EXPECT_EQ(arena->bytes(block, Access::read_only)[5], std::byte{3});
    arena->release(block);
    EXPECT_FALSE(receive(*arena, mail_->sent[0]));
  });
  ASSERT_TRUE(mail_->turn.reaches(1));
  EXPECT_EQ(data[0], std::byte{2});
  data[5] = std::byte{3};
  arena_->release(block);
  EXPECT_TRUE(is_live(block)) << "the child holds it";
  mail_->turn.set(2);
  EXPECT_EQ(reader.wait(), 0);
  EXPECT_FALSE(is_live(block));
  EXPECT_EQ(arena_->allocate_warm(100'000), block);
}

TEST_P(ArenaProcesses, MessageOutlivesItsSender) {
  const BlockNumber block = *arena_->allocate(1000);
  arena_->bytes(block, Access::read_write)[0] = std::byte{9};
  mail_->sent[0] = send(*arena_, block);
  Child sender([&] {
    Peer peer(*memory_, 1);
    const auto arena = peer.open_arena(arena_->segment());
    ASSERT_TRUE(receive(*arena, mail_->sent[0]));
    mail_->sent[1] = send(*arena, block);
    ::raise(SIGKILL);
  });
  EXPECT_EQ(sender.wait(), -SIGKILL);
  arena_->release(block);
  EXPECT_EQ(sweep_after(1), 0) << "its message is in flight";
  EXPECT_TRUE(is_live(block));
  ASSERT_TRUE(receive(*arena_, mail_->sent[1]));
  EXPECT_EQ(arena_->bytes(block, Access::read_only)[0], std::byte{9});
  arena_->release(block);
  EXPECT_FALSE(is_live(block));
}

TEST_P(ArenaProcesses, SweepFreesBlocksOfDeadHolder) {
  std::array<BlockNumber, 5> blocks{};
  for (std::size_t i = 0; i < 5; ++i) {
    blocks[i] = *arena_->allocate(1000);
    mail_->sent[i] = send(*arena_, blocks[i]);
  }
  Child holder([&] {
    Peer peer(*memory_, 1);
    const auto arena = peer.open_arena(arena_->segment());
    for (std::size_t i = 0; i < 5; ++i) EXPECT_TRUE(receive(*arena, mail_->sent[i]));
    mail_->turn.set(1);
    ::pause();
  });
  ASSERT_TRUE(mail_->turn.reaches(1));
  for (std::size_t i = 0; i < 4; ++i) arena_->release(blocks[i]);
  for (const BlockNumber block : blocks) EXPECT_TRUE(is_live(block));
  holder.kill_and_reap();
  EXPECT_EQ(sweep_after(1), 4);
  EXPECT_TRUE(is_live(blocks[4])) << "this process holds it";
  EXPECT_EQ(sweep_after(1), 0);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(arena_->allocate_warm(1000));
}

TEST_P(ArenaProcesses, OwnerDeathKeepsBlocksThatOthersHold) {
  Child owner([&] {
    Peer peer(*memory_, 2);
    const auto arena = peer.make_arena();
    const BlockNumber block = *arena->allocate(1000);
    arena->bytes(block, Access::read_write)[1] = std::byte{7};
    mail_->sent[0] = send(*arena, block);
    mail_->turn.set((*arena->segment().file()).get());
    ::pause();
  });
  ASSERT_TRUE(mail_->turn.reaches(1));
  const std::string path =
      "/proc/" + std::to_string(owner.pid()) + "/fd/" + std::to_string(mail_->turn.get());
  const auto segment = Segment::open(memory_->id(), 2, open_path(path));
  const auto arena = peer_.open_arena(*segment);
  owner.kill_and_reap();
  sweep(
      *segment, *memory_, 2, [](BlockNumber) {},
      [](BlockNumber, FreeResult) { ADD_FAILURE() << "it is in flight"; });
  const BlockNumber block = mail_->sent[0].block;
  ASSERT_TRUE(receive(*arena, mail_->sent[0]));
  EXPECT_EQ(arena->bytes(block, Access::read_only)[1], std::byte{7});
  const Sent onwards = send(*arena, block);
  arena->release(block);
  EXPECT_TRUE(word_of(*arena, block).live());
  EXPECT_TRUE(receive(*arena, onwards));
  arena->release(block);
  EXPECT_FALSE(word_of(*arena, block).live());
}

INSTANTIATE_TEST_SUITE_P(Strategies, ArenaProcesses,
                         ::testing::Values(Strategy::file_descriptor, Strategy::file_system),
                         [](const auto& test) {
                           return test.param == Strategy::file_system ? "named" : "memfd";
                         });

}  // namespace
}  // namespace shmtensor
