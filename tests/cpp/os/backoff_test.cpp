#include "os/backoff.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <thread>

namespace shmtensor {
namespace {

// A real-time thread that only yields would keep a lock holder of lower priority from running.
TEST(Backoff, SleepsInTheEnd) {
  std::thread([] {
    const auto sleeps = [] {
      rusage usage{};
      ::getrusage(RUSAGE_THREAD, &usage);
      return usage.ru_nvcsw;  // a yield does not count
    };
    const long before = sleeps();
    Backoff backoff;
    for (int i = 0; i < 2000; ++i) backoff.pause();
    EXPECT_GE(sleeps() - before, 10);
  }).join();
}

}  // namespace
}  // namespace shmtensor
