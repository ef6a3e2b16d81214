#include "arena/local_table.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "support/child.hpp"
#include "support/wait.hpp"

namespace shmtensor {
namespace {

using Lock = LocalTable::Lock;

void set_count(const LocalTable& table, BlockNumber block, std::uint32_t count) {
  Lock(table, block).set_count(count);
}
std::uint32_t count_of(const LocalTable& table, BlockNumber block) {
  return Lock(table, block).count();
}

TEST(LocalTable, StartsEmpty) {
  const LocalTable table(4096);
  EXPECT_FALSE(table.holds(4095));
  const Lock lock(table, 4095);
  EXPECT_EQ(lock.count(), 0u);
  EXPECT_EQ(lock.object(Access::read_only), nullptr);
  EXPECT_EQ(lock.object(Access::read_write), nullptr);
}

TEST(LocalTable, KeepsCountsAndObjectsByBlock) {
  const LocalTable table(4096);
  int reader = 0;
  int writer = 0;
  {
    Lock lock(table, 5);
    lock.set_count(3);
    table.set_object(lock, Access::read_only, &reader);
    table.set_object(lock, Access::read_write, &writer);
  }
  EXPECT_TRUE(table.holds(5));
  EXPECT_FALSE(table.holds(4));
  EXPECT_FALSE(table.holds(6));
  const Lock lock(table, 5);
  EXPECT_EQ(lock.count(), 3u);
  EXPECT_EQ(lock.object(Access::read_only), &reader);
  EXPECT_EQ(lock.object(Access::read_write), &writer);
  EXPECT_EQ(Lock(table, 6).object(Access::read_only), nullptr);
}

TEST(LocalTable, OnlyLastReleaseNeedsTheLock) {
  const LocalTable table(4096);
  EXPECT_FALSE(table.drop_one_of_many(5));
  set_count(table, 5, 3);
  EXPECT_TRUE(table.drop_one_of_many(5));
  EXPECT_TRUE(table.drop_one_of_many(5));
  EXPECT_FALSE(table.drop_one_of_many(5));
  EXPECT_EQ(count_of(table, 5), 1u);
  set_count(table, 5, 2);
  const Lock lock(table, 5);
  EXPECT_FALSE(table.drop_one_of_many(5)) << "another thread uses it";
  EXPECT_TRUE(table.holds(5));
}

TEST(LocalTable, LocksEachBlockExclusively) {
  const LocalTable table(4096);
  constexpr std::uint32_t kTimes = 4'000;
  std::array<std::uint64_t, 2> plain{};  // not atomic: the locks protect them
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (std::uint32_t i = 0; i < kTimes; ++i) {
          Lock lock(table, i % 2);
          lock.set_count(lock.count() + 1);
          ++plain[i % 2];
        }
      });
    }
  }
  for (BlockNumber block = 0; block < 2; ++block) {
    EXPECT_EQ(count_of(table, block), 2 * kTimes);
    EXPECT_EQ(plain[block], 2 * kTimes);
  }
}

TEST(LocalTable, ConcurrentReleasesAndLocksLoseNoCount) {
  const LocalTable table(4096);
  constexpr std::uint32_t kTimes = 20'000;
  set_count(table, 0, 1);
  {
    std::jthread up([&] {
      for (std::uint32_t i = 0; i < kTimes; ++i) {
        Lock lock(table, 0);
        lock.set_count(lock.count() + 1);
      }
    });
    std::jthread down([&] {
      for (std::uint32_t dropped = 0; dropped < kTimes;) {
        if (table.drop_one_of_many(0)) ++dropped;
      }
    });
  }
  EXPECT_EQ(count_of(table, 0), 1u);
}

TEST(LocalTable, StopWaitsForLocksAndBlocksNewOnes) {
  const LocalTable table(4096);
  std::atomic<bool> locked{false};
  std::atomic<bool> reclaimed{false};
  std::atomic<int> entered{0};
  std::jthread holder([&] {
    Lock lock(table, 3);
    locked.store(true);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    lock.set_count(7);
    reclaimed.store(true);
  });
  ASSERT_TRUE(testing::eventually([&] { return locked.load(); }));
  LocalTable::stop_locking();
  table.wait_unlocked(3);
  EXPECT_TRUE(reclaimed.load());
  std::jthread late([&] {
    set_count(table, 3, 8);
    entered.fetch_add(1);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(entered.load(), 0);
  EXPECT_TRUE(table.holds(3));
  LocalTable::resume_locking();
  late.join();
  EXPECT_EQ(count_of(table, 3), 8u);
}

// A thread that has checked for the stop locks the entry, sees the stop, and releases the lock. A
// fork between these steps copies the lock, but not the thread: a thread of the child that needed
// the block waited indefinitely.
TEST(LocalTable, ForkedChildIsNotBlockedByParentThreads) {
  const LocalTable table(4096);
  set_count(table, 3, 7);
  std::atomic<int> step{0};
  std::jthread thread([&] {
    const Lock lock(table, 3);
    step.store(1);
    while (step.load() == 1) std::this_thread::yield();
  });
  ASSERT_TRUE(testing::eventually([&] { return step.load() == 1; }));
  testing::in_child([&] {
    table.unlock_in_child(4096);
    EXPECT_EQ(count_of(table, 3), 7u);
    EXPECT_FALSE(table.holds(4));
  });
  step.store(2);
}

}  // namespace
}  // namespace shmtensor
