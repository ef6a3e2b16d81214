#include "os/robust_word.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <thread>

#include "os/futex.hpp"
#include "support/child.hpp"
#include "support/shared.hpp"
#include "support/wait.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::eventually;
using testing::Shared;

TEST(RobustWord, HoldsThreadIdUntilThreadDies) {
  Shared<std::atomic<std::uint32_t>> word;
  Child child([&] {
    if (!claim_robust(*word)) return;
    ::pause();
  });
  const auto id = static_cast<std::uint32_t>(child.pid());
  ASSERT_TRUE(eventually([&] { return (word->load() & kRobustThread) == id; }));
  const std::uint32_t alive = word->load();
  child.kill_and_reap();
  EXPECT_EQ(word->load() & kRobustThread, 0u);
  EXPECT_NE(word->load(), alive);
}

TEST(RobustWord, EndOfThreadWakesOneThatWaitsForTwoWords) {
  constexpr std::uint64_t kMinute = 60'000'000'000;
  Shared<std::atomic<std::uint32_t>> word;
  std::atomic<std::uint32_t> other{0};
  Child child([&] {
    if (!claim_robust(*word)) return;
    ::pause();
  });
  ASSERT_TRUE(eventually([&] { return word->load() != 0; }));
  const std::uint32_t alive = word->load();
  EXPECT_EQ(wait_for_either(other, 0, *word, alive, 1), WaitEnd::timed_out);
  EXPECT_EQ(wait_for_either(other, 1, *word, alive, kMinute), WaitEnd::woken);
  constexpr long kFutexWaitv = 449;
  if (::syscall(kFutexWaitv, nullptr, 0, 0, nullptr, 0) < 0 && errno == ENOSYS) {
    GTEST_SKIP() << "the kernel waits for one word only";
  }
  EXPECT_EQ(wait_for_either(other, 0, *word, alive + 1, kMinute), WaitEnd::woken);
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    child.kill_and_reap();
  });
  EXPECT_EQ(wait_for_either(other, 0, *word, alive, kMinute), WaitEnd::woken);
  killer.join();
}

TEST(RobustWord, IsClearedWhenThreadReturns) {
  std::atomic<std::uint32_t> word{0};
  std::thread([&] { EXPECT_TRUE(claim_robust(word)); }).join();
  EXPECT_TRUE(eventually([&] { return word.load() != 0 && (word.load() & kRobustThread) == 0; }));
}

TEST(RobustWord, ClaimOfOtherThreadIsKept) {
  Shared<std::atomic<std::uint32_t>> word;
  Child child([&] {
    if (!claim_robust(*word)) return;
    ::pause();
  });
  ASSERT_TRUE(eventually([&] { return word->load() != 0; }));
  word->store(7);  // another thread's
  child.kill_and_reap();
  EXPECT_EQ(word->load(), 7u);
}

}  // namespace
}  // namespace shmtensor
