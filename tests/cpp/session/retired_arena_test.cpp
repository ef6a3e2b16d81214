// A process gives up an arena of its own while its threads allocate.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "session/session.hpp"
#include "support/server.hpp"

namespace shmtensor {
namespace {

class RetiredArena : public testing::ServerTest {
 protected:
  Budget budget_;
  const std::unique_ptr<Session> session_ =
      Session::connect(id_, Session::Start::always, {}, budget_);
};

TEST_F(RetiredArena, IsUnmappedWhileThreadsAllocate) {
  constexpr std::size_t kBlocks = std::size_t{1} << 20;  // of an arena
  std::vector<Block> blocks;
  for (std::size_t i = 0; i <= kBlocks; ++i) {
    auto block = session_->allocate_warm(64, Strategy::file_descriptor);
    if (!block) block = session_->allocate(64, Strategy::file_descriptor);
    blocks.push_back(*block);
  }
  EXPECT_EQ(session_->usage().arenas, 2u);
  const ArenaNumber first = blocks.front().arena->segment().number();
  std::atomic<bool> stop{false};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!stop.load()) {
        auto block = session_->allocate_warm(100, Strategy::file_descriptor);
        if (!block) block = session_->allocate(100, Strategy::file_descriptor);
        block->arena->bytes(block->number, Access::read_write)[99] = std::byte{1};
        block->arena->release(block->number);
        const PinnedArena arena = session_->find(first);
        EXPECT_TRUE(!arena || arena->owned());
      }
    });
  }
  for (const Block& block : blocks) block.arena->release(block.number);
  // The threads may have an arena pinned at a time, or a block in either.
  EXPECT_TRUE(testing::eventually([&] {
    session_->collect(kUnlimited);
    return session_->usage().arenas == 1;
  }));
  stop.store(true);
  threads.clear();
  EXPECT_EQ(session_->manager().statistics().blocks, 0u);
  EXPECT_EQ(session_->manager().statistics().arenas, 1u);
}

}  // namespace
}  // namespace shmtensor
