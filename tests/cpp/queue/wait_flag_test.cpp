#include "queue/wait_flag.hpp"

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

// A lost wake-up lets a child sleep until it is killed at its deadline.
constexpr std::chrono::hours kForever{1};

TEST(WaitFlag, AChangeWithoutAWaiterLeavesTheWord) {
  std::atomic<std::uint32_t> word{0};
  WaitFlag(word).notify(1);
  EXPECT_EQ(word.load(), 0u);
}

TEST(WaitFlag, ASleepEndsInTime) {
  std::atomic<std::uint32_t> word{0};
  WaitFlag flag(word);
  const std::uint32_t announced = flag.announce();
  for (const std::chrono::nanoseconds time : {0ns, -1ns, std::chrono::nanoseconds(3ms)}) {
    EXPECT_EQ(flag.sleep(announced, time), WaitEnd::timed_out);
  }
}

TEST(WaitFlag, AChangeBetweenTheCheckAndTheSleepEndsTheSleep) {
  std::atomic<std::uint32_t> word{0};
  WaitFlag flag(word);
  for (int round = 0; round < 3; ++round) {
    const std::uint32_t announced = flag.announce();
    flag.notify(1);  // no process sleeps, so the word is cleared
    EXPECT_EQ(word.load() & 1, 0u);
    EXPECT_EQ(flag.sleep(announced, kForever), WaitEnd::woken);
  }
}

// Regression: one process announced itself and checked; the word was cleared for two changes; a
// second process announced itself and used the first change; the first slept beside the second.
TEST(WaitFlag, AWordThatIsAnnouncedAgainDoesNotHideAChange) {
  std::atomic<std::uint32_t> word{0};
  WaitFlag flag(word);
  const std::uint32_t first = flag.announce();
  flag.wake_everyone();
  const std::uint32_t second = flag.announce();
  EXPECT_EQ(flag.sleep(first, kForever), WaitEnd::woken);
  EXPECT_EQ(flag.sleep(second, 1ms), WaitEnd::timed_out) << "it may sleep";
}

TEST(WaitFlag, WakesOneSleeperPerChange) {
  const Shared<std::array<std::atomic<std::uint32_t>, 3>> words;
  auto& [word, asleep, woken] = *words;
  const auto sleeper = [&] {
    return std::make_unique<Child>([&] {
      WaitFlag flag((*words)[0]);
      const std::uint32_t announced = flag.announce();
      (*words)[1].fetch_add(1);
      EXPECT_EQ(flag.sleep(announced, kForever), WaitEnd::woken);
      (*words)[2].fetch_add(1);
    });
  };
  const auto first = sleeper();
  const auto second = sleeper();
  ASSERT_TRUE(eventually([&] { return asleep.load() == 2; }));
  // A sleeper that is not asleep yet finds the word cleared, so both ways end with two woken.
  WaitFlag(word).notify(1);
  EXPECT_TRUE(eventually([&] { return woken.load() >= 1; }));
  WaitFlag(word).notify(1);
  EXPECT_EQ(first->wait(), 0);
  EXPECT_EQ(second->wait(), 0);
}

TEST(WaitFlag, WakeEveryoneWakesAll) {
  const Shared<std::array<std::atomic<std::uint32_t>, 3>> words;
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(std::make_unique<Child>([&] {
      WaitFlag flag((*words)[0]);
      while ((*words)[2].load() == 0) {
        const std::uint32_t announced = flag.announce();
        if ((*words)[2].load() != 0) break;
        (*words)[1].fetch_add(1);
        flag.sleep(announced, kForever);
      }
    }));
  }
  ASSERT_TRUE(eventually([&] { return (*words)[1].load() >= 4; }));
  (*words)[2].store(1);
  WaitFlag((*words)[0]).wake_everyone();
  for (const auto& child : children) EXPECT_EQ(child->wait(), 0);
}

}  // namespace
}  // namespace shmtensor
