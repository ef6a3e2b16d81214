#include "queue/owner_lock.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "support/child.hpp"
#include "support/shared.hpp"

namespace shmtensor {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using testing::eventually;
using testing::Shared;

constexpr std::uint32_t kAwaited = 1u << 31;

struct Locked {
  std::atomic<std::uint32_t> word{0};
  std::uint64_t count = 0;  ///< changed by the owner only
  std::atomic<std::uint32_t> inside{0};
  std::atomic<std::uint32_t> wrong{0};
  testing::Turn turn;
};

/// Takes and releases the lock, and notices whether another owner was inside.
void pass(Locked& locked, SlotNumber slot) {
  OwnerLock lock(locked.word);
  while (!lock.lock_within(slot, 1s)) {
  }
  const OwnerLockGuard guard(lock);
  locked.inside.store(slot);
  locked.count = locked.count + 1;
  if (locked.inside.load() != slot || lock.owner() != slot) locked.wrong.fetch_add(1);
}

TEST(OwnerLock, NamesItsOwner) {
  std::atomic<std::uint32_t> word{0};
  OwnerLock lock(word);
  EXPECT_GE(lock.owner(), kMaxSlots);
  ASSERT_TRUE(lock.try_lock(0));
  EXPECT_EQ(lock.owner(), 0u);
  EXPECT_FALSE(lock.try_lock(1));
  lock.unlock();
  ASSERT_TRUE(lock.try_lock(kMaxSlots - 1));
  EXPECT_EQ(lock.owner(), kMaxSlots - 1u);
  lock.unlock();
  EXPECT_EQ(word.load(), 0u);
}

TEST(OwnerLock, ExcludesThreadsOfOneProcess) {
  constexpr int kPasses = 20'000;
  Locked locked;
  {
    std::vector<std::jthread> threads;
    for (SlotNumber slot = 1; slot <= 3; ++slot) {
      threads.emplace_back([&, slot] {
        for (int i = 0; i < kPasses; ++i) pass(locked, slot);
      });
    }
  }
  EXPECT_EQ(locked.count, 3u * kPasses);
  EXPECT_EQ(locked.wrong.load(), 0u);
  EXPECT_EQ(locked.word.load(), 0u);
}

TEST(OwnerLock, AWaitEndsInTime) {
  std::atomic<std::uint32_t> word{0};
  OwnerLock lock(word);
  ASSERT_TRUE(lock.try_lock(1));
  for (const std::chrono::nanoseconds time : {0ns, 1ns, std::chrono::nanoseconds(5ms), -1ns}) {
    EXPECT_FALSE(lock.lock_within(2, time));
    EXPECT_EQ(lock.owner(), 1u);
  }
  lock.unlock();
  EXPECT_TRUE(lock.lock_within(2, 0ns));
}

TEST(OwnerLock, AnUnlockWakesAWaiterInAnotherProcess) {
  const Shared<Locked> locked;
  OwnerLock lock(locked->word);
  ASSERT_TRUE(lock.try_lock(1));
  Child child([&] {
    OwnerLock theirs(locked->word);
    EXPECT_TRUE(theirs.lock_within(2, 3600s));
  });
  ASSERT_TRUE(eventually([&] { return (locked->word.load() & kAwaited) != 0; }));
  lock.unlock();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(lock.owner(), 2u) << "it ended with the lock";
}

TEST(OwnerLock, ASignalEndsAWait) {
  const Shared<Locked> locked;
  OwnerLock lock(locked->word);
  ASSERT_TRUE(lock.try_lock(1));
  Child child([&] {
    struct sigaction action{};
    action.sa_handler = [](int) {};
    ::sigaction(SIGUSR1, &action, nullptr);
    locked->turn.set(1);
    OwnerLock theirs(locked->word);
    EXPECT_FALSE(theirs.lock_within(2, 3600s));
    locked->turn.set(2);
  });
  ASSERT_TRUE(locked->turn.reaches(1));
  // It may not be asleep yet at the first signal.
  EXPECT_TRUE(eventually([&] {
    if (locked->turn.get() == 1) child.kill(SIGUSR1);
    return locked->turn.get() == 2;
  }));
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(lock.owner(), 1u);
}

}  // namespace
}  // namespace shmtensor
