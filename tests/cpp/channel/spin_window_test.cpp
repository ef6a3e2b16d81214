#include "channel/spin_window.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace shmtensor {
namespace {

constexpr int kElsewhere = -1;  // no processor's number
constexpr std::uint64_t kShort = 100'000, kLong = 1'000'000;

class SpinWindowTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::uint64_t window() { return spin_.window(0, kElsewhere); }
  /// The number of waits that end while the thread sleeps, until it does not spin any more.
  int close(std::uint64_t waited) {
    for (int waits = 0; waits < 100; ++waits) {
      if (window() == 0) return waits;
      spin_.note_slept(waited);
    }
    return 100;
  }

  SpinWindow spin_{kNoCpuQuota};
};

TEST_F(SpinWindowTest, ClosesAfterWaitsThatSpinningDidNotEnd) {
  EXPECT_LT(close(kLong), 10);
  for (int i = 0; i < 100; ++i) spin_.note_slept(kLong);
  EXPECT_EQ(window(), 0u) << "long waits open nothing";
  spin_.note_spun();
  EXPECT_GT(window(), 0u);
  EXPECT_LT(close(kShort), 10)
      << "a thread that spins without success stops, also if its waits are short";
}

TEST_F(SpinWindowTest, ShortWaitsTryAgainLessOftenAfterEachFailure) {
  close(kLong);
  std::vector<int> trials;
  for (int i = 0; i < 3'000; ++i) {
    spin_.note_slept(kShort);
    if (window() == 0) continue;
    trials.push_back(i);
    spin_.note_slept(kShort);
    EXPECT_EQ(window(), 0u) << "a trial is one wait";
  }
  EXPECT_EQ(trials, (std::vector{0, 32, 64, 128, 256, 512, 1024, 2048}));
  spin_.note_spun();
  close(kLong);
  int waits = 0;
  for (; window() == 0; ++waits) spin_.note_slept(kShort);
  EXPECT_LE(waits, 16) << "a success lets it try as often as before";
}

TEST(SpinWindow, StaysClosedInASmallCpuQuota) {
  for (const double quota : {0.1, 1.0, 1.99}) {
    SpinWindow spin(quota);
    EXPECT_EQ(spin.window(0, kElsewhere), 0u);
    spin.note_spun();
    for (int i = 0; i < 100; ++i) spin.note_slept(kShort);
    EXPECT_EQ(spin.window(0, kElsewhere), 0u) << quota;
  }
  EXPECT_GT(SpinWindow(2).window(0, kElsewhere), 0u);
}

}  // namespace
}  // namespace shmtensor
