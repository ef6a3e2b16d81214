// A process that is short of address space.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>
#include <utility>

#include "base/align.hpp"
#include "os/mapping.hpp"

namespace shmtensor::testing {

/// Runs the function while there is not enough for a table of tickets, but for the heap.
template <typename Body>
void with_scarce_address_space(Body&& body) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &limit), 0);
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t before = std::exchange(limit.rlim_cur, pages * page_size() + 8 * kMiB);
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
  std::forward<Body>(body)();
  limit.rlim_cur = before;
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
}

}  // namespace shmtensor::testing
