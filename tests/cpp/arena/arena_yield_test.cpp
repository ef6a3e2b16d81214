// While the kernel reserves or frees pages for one thread, the others allocate and release.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <latch>
#include <thread>
#include <vector>

#include "arena/arena.hpp"
#include "arena/yielding_lock.hpp"
#include "base/error.hpp"
#include "os/page_reservation.hpp"
#include "support/world_fixture.hpp"

namespace shmtensor {
namespace {

using testing::Peer;

class ArenaYield : public testing::WorldTest {
 protected:
  static constexpr SegmentLayout kLarge{4096, 8 * kGiB};

  [[nodiscard]] std::unique_ptr<Arena> make_arena() {
    return std::make_unique<Arena>(
        Segment::create(memory_->id(), 1, 0, 1, Strategy::file_descriptor, kLarge), peer_.member(),
        &peer_.budget());
  }

  Peer peer_{*memory_, 0};
};

TEST(YieldingLock, OtherThreadsAcquireItDuringYieldAndAreWoken) {
  YieldingLock lock;
  bool done = false;
  std::latch working(1);
  std::latch seen(1);
  std::thread worker([&] {
    const std::lock_guard guard(lock);
    lock.unlocked([&] {
      working.count_down();
      seen.wait();
    });
    done = true;
  });
  working.wait();
  {
    const std::lock_guard guard(lock);
    EXPECT_FALSE(done);
    seen.count_down();
    while (!done) lock.wait();
  }
  worker.join();
}

TEST(YieldingLock, IsReacquiredIfTheWorkThrows) {
  YieldingLock lock;
  const std::lock_guard guard(lock);
  EXPECT_THROW(lock.unlocked([] { throw Error("on purpose"); }), Error);
  std::thread([&] { EXPECT_FALSE(lock.try_lock()); }).join();
}

// Small blocks are allocated and freed while a large one is being reserved, not after it.
TEST_F(ArenaYield, SmallAllocationsDoNotWaitForLargeOne) {
  const auto arena = make_arena();
  arena->release(*arena->allocate(64));
  std::atomic<int> reserving = 0;  // the number of the large block that is being reserved, or 0
  std::atomic<bool> done = false;
  std::atomic<int> meanwhile = 0;
  std::thread large([&] {
    // The kernel works on each for some tenths of a second. On a busy machine, this thread may have
    // the only processor for the first ones.
    for (int number = 1; number <= 10 && meanwhile <= 20; ++number) {
      reserving = number;
      const auto block = arena->allocate(kGiB);
      reserving = 0;
      arena->release(*block);
      arena->collect(0);
    }
    done = true;
  });
  while (!done) {
    const int before = reserving;
    const auto warm = arena->allocate_warm(64);
    const BlockNumber block = warm ? *warm : *arena->allocate(64);
    if (before != 0 && reserving == before) ++meanwhile;
    arena->release(block);
  }
  large.join();
  EXPECT_GT(meanwhile, 20);
}

// Several threads allocate blocks of all sizes and trim: blocks share extents at their edges, and
// one thread reserves pages while another frees its own.
TEST_F(ArenaYield, ConcurrentAllocationsKeepTheirPages) {
  constexpr int kRounds = 400;
  const auto arena = make_arena();
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      unsigned random = t + 1;
      std::vector<std::pair<BlockNumber, std::uint64_t>> held;
      const auto fill = static_cast<int>(t + 1);
      const auto drop = [&](std::size_t i) {
        const auto [block, size] = held[i];
        const auto bytes = arena->bytes(block, Access::read_only);
        for (std::uint64_t at = 0; at < size; at += 1024) {
          ASSERT_EQ(bytes[at], static_cast<std::byte>(fill)) << at << " of " << size;
        }
        arena->release(block);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
      };
      for (int turn = 0; turn < kRounds; ++turn) {
        random = random * 1664525 + 1013904223;
        const std::uint64_t size = 1 + (random >> 8) % (turn % 8 == 0 ? 12 * kMiB : 300 * kKiB);
        const BlockNumber block = *arena->allocate(size);
        std::memset(arena->bytes(block, Access::read_write).data(), fill, size);
        held.emplace_back(block, size);
        if (held.size() > 8) drop(random % held.size());
        if (turn % 16 == 0) arena->collect(0);
      }
      while (!held.empty()) drop(0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  arena->collect(0);
  EXPECT_EQ(arena->reserved(), 0u);
  EXPECT_EQ(peer_.budget().reserved(), 0u);
}

// Memory runs out in the middle of a large block: the pages reserved for it are freed, and no
// others.
TEST_F(ArenaYield, FailedLargeAllocationLeaksNothing) {
  const auto arena = make_arena();
  const BlockNumber kept = *arena->allocate(kMiB);
  std::memset(arena->bytes(kept, Access::read_write).data(), 7, kMiB);
  const std::uint64_t before = arena->reserved();
  peer_.budget().set_limit(100 * kMiB);
  std::atomic<bool> stop = false;
  std::thread taker([&] {  // from the same limit, so that the large block fails at any place
    while (!stop) {
      if (peer_.budget().try_reserve(60 * kMiB)) peer_.budget().release(60 * kMiB);
    }
  });
  for (int i = 0; i < 50; ++i) {
    try {
      arena->release(*arena->allocate(90 * kMiB));
    } catch (const OutOfMemory&) {
      EXPECT_LE(arena->reserved(), before + 4 * kMiB) << "the extents at the edges";
    }
    arena->collect(0);
  }
  stop = true;
  taker.join();
  EXPECT_EQ(peer_.budget().reserved(), arena->reserved());
  EXPECT_EQ(arena->bytes(kept, Access::read_only)[kMiB - 1], std::byte{7});
}

}  // namespace
}  // namespace shmtensor
