#include "queue/wait_flag.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace shmtensor {
namespace {

using namespace std::chrono_literals;

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

}  // namespace
}  // namespace shmtensor
