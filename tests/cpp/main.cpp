// Runs the tests, with a check for leaks around each.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "os/limits.hpp"
#include "support/leak_guard.hpp"

int main(int count, char** arguments) {
  ::testing::InitGoogleTest(&count, arguments);
  ::testing::UnitTest::GetInstance()->listeners().Append(new shmtensor::testing::LeakGuard);
  // Two tests hold more descriptors than 1,024, the soft limit in most shells.
  shmtensor::raise_soft_limit(RLIMIT_NOFILE);
  return RUN_ALL_TESTS();
}
