#include "os/robust_word.hpp"

#include <gtest/gtest.h>

#include <thread>

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
  ASSERT_TRUE(eventually([&] { return word->load() == static_cast<std::uint32_t>(child.pid()); }));
  child.kill_and_reap();
  EXPECT_NE(word->load(), static_cast<std::uint32_t>(child.pid()));
  EXPECT_NE(word->load() & ~kRobustThread, 0u) << "the kernel's mark";
}

TEST(RobustWord, IsClearedWhenThreadReturns) {
  std::atomic<std::uint32_t> word{0};
  std::thread([&] { EXPECT_TRUE(claim_robust(word)); }).join();
  EXPECT_TRUE(eventually([&] { return (word.load() & ~kRobustThread) != 0; }));
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
