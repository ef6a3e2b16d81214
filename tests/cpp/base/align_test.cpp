#include "base/align.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace shmtensor {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

TEST(Align, RoundsUpAndDown) {
  EXPECT_EQ(align_up(0, 64), 0u);
  EXPECT_EQ(align_up(1, 64), 64u);
  EXPECT_EQ(align_up(64, 64), 64u);
  EXPECT_EQ(align_up(65, 64), 128u);
  EXPECT_EQ(align_down(63, 64), 0u);
  EXPECT_EQ(align_down(64, 64), 64u);
  EXPECT_EQ(align_down(kMost, 4096), kMost - 4095);
  EXPECT_EQ(align_up(5 * kGiB + 1, 2 * kMiB), 5 * kGiB + 2 * kMiB);
}

TEST(Align, FitsHandlesOverflow) {
  EXPECT_TRUE(fits(0, 10, 10));
  EXPECT_TRUE(fits(10, 0, 10));
  EXPECT_FALSE(fits(1, 10, 10));
  EXPECT_FALSE(fits(11, 0, 10));
  EXPECT_FALSE(fits(kMost, 2, 10));  // the sum would be 1
  EXPECT_FALSE(fits(2, kMost, 10));
}

}  // namespace
}  // namespace shmtensor
