#include "os/spin_lock.hpp"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

#include "os/clock.hpp"
#include "os/random.hpp"

namespace shmtensor {
namespace {

TEST(SpinLock, IsExclusive) {
  constexpr int kThreads = 6;
  constexpr int kTurns = 5'000;
  SpinLock lock;
  int count = 0;  // not atomic: the lock protects it
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        for (int turn = 0; turn < kTurns; ++turn) {
          const std::lock_guard guard(lock);
          ++count;
        }
      });
    }
  }
  EXPECT_EQ(count, kThreads * kTurns);
}

TEST(Clock, IsMonotonic) {
  std::uint64_t last = coarse_milliseconds();
  for (int i = 0; i < 1'000; ++i) {
    const std::uint64_t now = coarse_milliseconds();
    EXPECT_GE(now, last);
    last = now;
  }
  EXPECT_GE(coarse_seconds(), last / 1000);
}

TEST(Random, DoesNotRepeat) { EXPECT_NE(random_word(), random_word()); }

}  // namespace
}  // namespace shmtensor
