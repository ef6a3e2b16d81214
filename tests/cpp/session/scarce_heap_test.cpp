// A session in a process whose heap is exhausted: nothing that cannot throw needs heap memory.
#include "support/scarce_heap.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <thread>
#include <vector>

#include "arena/block_word.hpp"
#include "arena/ticket_record.hpp"
#include "session/session.hpp"
#include "support/server.hpp"

namespace shmtensor {
namespace {

constexpr std::uint64_t kMost = 60;  // allocations that a call makes

class ScarceSession : public testing::ServerTest {
 protected:
  Block allocate(std::byte value) {
    const Block block = session_->allocate(1000, Strategy::file_descriptor);
    block.arena->bytes(block.number, Access::read_write)[999] = value;
    return block;
  }

  Budget budget_;
  const std::unique_ptr<Session> session_ =
      Session::connect(id_, Session::Start::always, {}, budget_);
};

// Regression: the fork handlers ended the process. A child for which there was not enough memory
// has no slot, and can read.
TEST_F(ScarceSession, Forks) {
  const Block block = allocate(std::byte{7});
  int with_slot = 0;
  for (std::uint64_t left = 0; left < kMost; ++left) {
    pid_t child = 0;
    {
      const testing::ScarceHeap heap(left);
      session_->lock_for_fork();
      LocalTable::stop_locking();
      session_->prepare_child();
      session_->lock_lists_for_fork();
      child = ::fork();
      if (child == 0) {
        const bool holds = session_->unlock_in_child();
        LocalTable::resume_locking();
        const bool reads =
            block.arena->bytes(block.number, Access::read_write)[999] == std::byte{7};
        const bool slot = session_->slot() != kNoSlot;
        if (slot) block.arena->release(block.number);
        ::_exit(holds && reads ? (slot ? 1 : 0) : 2);
      }
      session_->unlock_in_parent();
      LocalTable::resume_locking();
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << status << " with " << left << " allocations";
    ASSERT_LT(WEXITSTATUS(status), 2) << left;
    with_slot += WEXITSTATUS(status);
  }
  EXPECT_GT(with_slot, 0);
  block.arena->release(block.number);
  EXPECT_TRUE(testing::eventually([&] { return session_->manager().statistics().blocks == 0; }));
}

// Regression: a failed attempt to report that no manager can be started ended the process.
TEST_F(ScarceSession, MissesItsManager) {
  server_.reset();
  for (std::uint64_t left = 0; left < kMost; ++left) {
    const testing::ScarceHeap heap(left);
    session_->manager().ensure();
  }
}

// Regression: a block that contains tickets stayed until any process made its next request.
TEST_F(ScarceSession, LetsTheManagerEmptyBlocks) {
  std::vector<Block> blocks(2 * ManagerClient::kMostNotices);
  for (Block& block : blocks) {
    block = allocate(std::byte{0});
    std::ranges::fill(block.arena->bytes(block.number, Access::read_write), std::byte{0});
    block.arena->set_contents(block.number,
                              {.kind = TicketContents::Kind::message, .stride = 32, .count = 1});
  }
  {
    // As many as a thread leaves while another one has the connection.
    const ManagerClient::Guard connection(session_->manager());
    std::thread([&] {
      const testing::ScarceHeap heap(0);
      for (const Block& block : blocks) block.arena->release(block.number);
    }).join();
  }
  EXPECT_TRUE(testing::eventually([&] {
    return std::ranges::all_of(blocks, [](const Block& block) {
      return BlockWord(block.arena->segment().record(block.number).word.load()).is_free();
    });
  }));
}

}  // namespace
}  // namespace shmtensor
