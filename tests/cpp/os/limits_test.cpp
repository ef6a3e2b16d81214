#include "os/limits.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/align.hpp"
#include "os/mapping.hpp"
#include "support/child.hpp"

namespace shmtensor {
namespace {

using testing::exit_of;
using testing::in_child;

TEST(Limits, AvailableMemoryNamesItsLimit) {
  EXPECT_GT(physical_memory(), 16 * kMiB);
  const AvailableMemory available = available_memory();
  EXPECT_GT(available.bytes, 0u);
  EXPECT_LE(available.bytes, physical_memory());
  EXPECT_FALSE(available.limited_by.empty());
}

TEST(Limits, AvailableMemoryShrinksWithUse) {
  constexpr std::uint64_t kPiece = 64 * kMiB;
  // A processor caches up to an eighth of the machine's pages after they were freed; such pages are
  // not counted as free. So this may need several pieces.
  const std::uint64_t before = available_memory().bytes;
  std::vector<Mapping> taken;
  bool shrunk = false;  // at one time: other processes take and free memory, too
  while (!shrunk && taken.size() * kPiece < before / 4) {
    std::memset(taken.emplace_back(Mapping::anonymous(kPiece)).data(), 1, kPiece);
    shrunk = available_memory().bytes <= before - kPiece;
  }
  EXPECT_TRUE(shrunk) << taken.size() << " pieces taken";
}

TEST(Limits, SoftDescriptorLimitIsReportedAndRaised) {
  in_child([] {
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 40;
    limit.rlim_max = 200;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(descriptor_limit(), 40u);
    raise_soft_limit(RLIMIT_NOFILE);
    EXPECT_EQ(descriptor_limit(), 200u);
  });
}

TEST(Limits, AddressSpaceLimitIsReported) {
  EXPECT_EQ(exit_of([] {
              rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
              ASSERT_EQ(::getrlimit(RLIMIT_AS, &limit), 0);
              limit.rlim_cur = std::uint64_t{1} << 62;
              if (limit.rlim_max < limit.rlim_cur) return;  // the hard limit cannot be raised again
              ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
              EXPECT_EQ(address_space_limit(), std::uint64_t{1} << 62);
              limit.rlim_cur = limit.rlim_max;
              ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
              if (limit.rlim_max == RLIM_INFINITY) {
                EXPECT_EQ(address_space_limit(), kUnlimited);
              }
            }),
            0);
}

TEST(Limits, AddressSpaceContainsAllMappings) {
  const std::uint64_t before = address_space();
  const Mapping mapping = Mapping::anonymous(page_size());
  EXPECT_GT(before, reinterpret_cast<std::uint64_t>(mapping.data()));
  EXPECT_LE(before, std::min(address_space_limit(), std::uint64_t{1} << 56));
  in_child([&] {
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = before / 2;
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
    EXPECT_EQ(address_space(), before / 2);
  });
}

}  // namespace
}  // namespace shmtensor
