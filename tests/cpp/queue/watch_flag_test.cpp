#include "queue/watch_flag.hpp"

#include <gtest/gtest.h>

namespace shmtensor {
namespace {

TEST(WatchFlag, IsArmedAndDisarmed) {
  std::atomic<std::uint32_t> word{0};
  WatchFlag flag(word);
  EXPECT_FALSE(flag.is_used());
  for (std::uint32_t round = 0; round < 3; ++round) {
    EXPECT_FALSE(flag.is_armed());
    EXPECT_EQ(flag.changes(), round);
    flag.arm();
    flag.arm();  // by another process
    EXPECT_TRUE(flag.is_armed());
    EXPECT_EQ(flag.changes(), round);
    flag.disarm();
  }
  EXPECT_TRUE(flag.is_used());
}

}  // namespace
}  // namespace shmtensor
