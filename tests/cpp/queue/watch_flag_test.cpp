#include "queue/watch_flag.hpp"

#include <gtest/gtest.h>

namespace shmtensor {
namespace {

TEST(WatchFlag, IsArmedAndDisarmed) {
  std::atomic<std::uint32_t> word{0};
  WatchFlag flag(word);
  for (int round = 0; round < 3; ++round) {
    EXPECT_FALSE(flag.is_armed());
    flag.arm();
    flag.arm();  // by another process
    EXPECT_TRUE(flag.is_armed());
    flag.disarm();
  }
}

}  // namespace
}  // namespace shmtensor
