// Runs the tests, each between two looks at what is left behind.
#include <gtest/gtest.h>

#include "support/leak_guard.hpp"

int main(int count, char** arguments) {
  ::testing::InitGoogleTest(&count, arguments);
  ::testing::UnitTest::GetInstance()->listeners().Append(new shmtensor::testing::LeakGuard);
  return RUN_ALL_TESTS();
}
