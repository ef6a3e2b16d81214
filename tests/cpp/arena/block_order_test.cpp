#include "arena/block_order.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <random>

namespace shmtensor {
namespace {

// Random changes, compared with a std::map.
TEST(BlockOrder, AnswersAsAMap) {
  std::mt19937_64 random(1);  // NOLINT: the same each time
  BlockOrder order;
  std::map<std::uint64_t, BlockNumber> map;
  for (BlockNumber i = 0; i < 40'000; ++i) {
    const std::uint64_t offset = random() % 8192;
    if (random() % 3 == 0) {
      order.erase(offset);
      map.erase(offset);
    } else {
      order.put({offset, i});
      map.insert_or_assign(offset, i);
    }
    if (i % 10'000 == 0) {
      const std::uint64_t odd = random() % 2;
      order.erase_if([odd](const BlockOrder::Place& place) { return place.offset % 2 == odd; });
      std::erase_if(map, [odd](const auto& pair) { return pair.first % 2 == odd; });
    }
    ASSERT_EQ(order.size(), map.size());
    const std::uint64_t asked = random() % 9000;
    const auto found = order.last_until(asked);
    const auto after = map.upper_bound(asked);
    ASSERT_EQ(found.has_value(), after != map.begin());
    if (!found) continue;
    EXPECT_EQ(found->offset, std::prev(after)->first);
    EXPECT_EQ(found->block, std::prev(after)->second);
  }
}

// The search begins where an offset would be among blocks of one size. It must not rely on that.
TEST(BlockOrder, FindsPlacesAtAnyDistances) {
  std::mt19937_64 random(2);  // NOLINT: the same each time
  const std::array<std::function<std::uint64_t()>, 4> distances = {
      [] { return 64u; },
      [&] { return 64 + random() % 4096; },
      [&] { return std::uint64_t{64} << random() % 34; },
      [&] { return random() % 100 == 0 ? std::uint64_t{1} << 36 : 1; },
  };
  for (const auto& distance : distances) {
    BlockOrder order;
    std::map<std::uint64_t, BlockNumber> map;
    std::uint64_t offset = 1000;
    for (BlockNumber i = 0; i < 3'000; ++i) {
      order.put({offset, i});
      map[offset] = i;
      offset += distance();
    }
    EXPECT_FALSE(order.last_until(999));
    for (auto place = map.begin(); place != map.end(); ++place) {
      const auto next = std::next(place);
      const std::uint64_t end = next == map.end() ? ~std::uint64_t{0} : next->first - 1;
      for (const std::uint64_t asked : {place->first, std::midpoint(place->first, end), end}) {
        ASSERT_EQ(order.last_until(asked)->block, place->second) << asked;
      }
    }
  }
}

}  // namespace
}  // namespace shmtensor
