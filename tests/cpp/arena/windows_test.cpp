#include "arena/windows.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace shmtensor {
namespace {

TEST(Windows, FindRangesThatOneWindowHas) {
  Windows windows;
  EXPECT_EQ(windows.find(0, 0), nullptr);
  Mapping first = Mapping::anonymous(64 * kKiB);
  Mapping second = Mapping::anonymous(128 * kKiB);
  std::byte* const a = first.data();
  std::byte* const b = second.data();
  windows.add(64 * kKiB, std::move(first));
  windows.add(96 * kKiB, std::move(second));
  EXPECT_EQ(windows.find(64 * kKiB, 10), a);
  EXPECT_EQ(windows.find(65 * kKiB, 40 * kKiB), a + kKiB) << "ends in both";
  EXPECT_EQ(windows.find(100 * kKiB, 124 * kKiB), b + 4 * kKiB);
  EXPECT_EQ(windows.find(224 * kKiB, 0), b + 128 * kKiB) << "nothing, at the end";
  EXPECT_EQ(windows.find(100 * kKiB, 125 * kKiB), nullptr);
  EXPECT_EQ(windows.find(63 * kKiB, 2 * kKiB), nullptr);
  EXPECT_EQ(windows.find(80 * kKiB, 100 * kKiB), nullptr) << "in both together, in none alone";
  EXPECT_EQ(windows.find(~std::uint64_t{0}, ~std::uint64_t{0}), nullptr);
  EXPECT_EQ(windows.count(), 2);
}

TEST(Windows, AddedByThreadsAreFoundAndKeptOnce) {
  constexpr std::uint64_t kEach = 50;
  Windows windows;
  std::vector<std::jthread> threads;
  for (std::uint64_t part = 0; part < 4; ++part) {
    threads.emplace_back([&, part] {
      for (std::uint64_t i = 0; i < kEach; ++i) windows.add(0, Mapping::anonymous(page_size()));
      for (std::uint64_t i = part * kEach; i < (part + 1) * kEach; ++i) {
        windows.add(i * page_size(), Mapping::anonymous(page_size()));
        *windows.find(i * page_size(), 8) = std::byte{static_cast<unsigned char>(i)};
      }
    });
  }
  threads.clear();
  EXPECT_EQ(windows.count(), static_cast<int>(4 * kEach)) << "each once";
  for (std::uint64_t i = 0; i < 4 * kEach; ++i) {
    EXPECT_EQ(*windows.find(i * page_size(), 8), std::byte{static_cast<unsigned char>(i)});
  }
}

}  // namespace
}  // namespace shmtensor
