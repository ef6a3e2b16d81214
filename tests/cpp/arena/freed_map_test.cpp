#include "arena/freed_map.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

namespace shmtensor {
namespace {

/// The map over private memory.
class FreedMapTest : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  [[nodiscard]] std::vector<BlockNumber> taken() const {
    std::vector<BlockNumber> blocks;
    map_.take([&](BlockNumber block) { blocks.push_back(block); });
    return blocks;
  }
  [[nodiscard]] bool empty() const {
    return !map_.any() && std::all_of(words_.begin(), words_.end(),
                                      [](const auto& word) { return word.load() == 0; });
  }
  [[nodiscard]] std::atomic<std::uint64_t>& middle(BlockNumber block) {
    return words_[max_ / 64 + block / 4096];
  }

  const std::uint32_t max_ = GetParam();
  std::atomic<std::uint64_t> top_{0};
  std::vector<std::atomic<std::uint64_t>> words_ =
      std::vector<std::atomic<std::uint64_t>>(max_ / 64 + max_ / 4096);
  const FreedMap map_{&top_, words_.data(), max_};
};

TEST_P(FreedMapTest, FindsEachEdgeBit) {
  std::set<BlockNumber> corners;
  for (std::uint64_t step : {1u, 64u, 4096u, max_ / 64, max_ / 2, max_}) {
    for (const std::uint64_t at : {std::uint64_t{0}, step - 1, step, step + 1, max_ - step}) {
      if (at < max_) corners.insert(static_cast<BlockNumber>(at));
    }
  }
  for (const BlockNumber block : corners) {
    map_.mark(block);
    EXPECT_TRUE(map_.any());
    EXPECT_EQ(taken(), std::vector<BlockNumber>{block});
    EXPECT_TRUE(empty()) << block;
  }
  for (const BlockNumber block : corners) map_.mark(block);
  EXPECT_EQ(taken(), (std::vector<BlockNumber>{corners.begin(), corners.end()}));
  EXPECT_TRUE(empty());
}

TEST_P(FreedMapTest, FindsAllBitsTogether) {
  // Prime steps reach each word; all blocks of the largest maps would take too long.
  const std::uint32_t step = max_ > 1u << 18 ? 61 : 1;
  std::uint32_t marked = 0;
  for (BlockNumber block = 0; block < max_; block += step, ++marked) map_.mark(block);
  const std::vector<BlockNumber> blocks = taken();
  ASSERT_EQ(blocks.size(), marked);
  for (std::uint32_t i = 0; i < marked; ++i) ASSERT_EQ(blocks[i], i * step);
  EXPECT_TRUE(empty());
}

TEST_P(FreedMapTest, BitMarkedTwiceIsFoundOnce) {
  map_.mark(max_ / 3);
  map_.mark(max_ / 3);
  EXPECT_EQ(taken().size(), 1u);
  EXPECT_TRUE(taken().empty());
}

// A process may be killed between any two of the three steps of a mark.
TEST_P(FreedMapTest, BitsWithoutSummaryAreFoundWithTheirNeighbours) {
  const BlockNumber lost = max_ - 1;
  const BlockNumber other = max_ - 2;
  words_[lost / 64].fetch_or(std::uint64_t{1} << lost % 64);
  EXPECT_FALSE(map_.any());
  EXPECT_TRUE(taken().empty());
  map_.mark(other);
  EXPECT_EQ(taken(), (std::vector<BlockNumber>{other, lost}));

  words_[lost / 64].fetch_or(std::uint64_t{1} << lost % 64);
  middle(lost).fetch_or(std::uint64_t{1} << lost / 64 % 64);
  EXPECT_TRUE(taken().empty());
  map_.mark(other);
  EXPECT_EQ(taken(), (std::vector<BlockNumber>{other, lost}));
  EXPECT_TRUE(empty());
}

// A mark may also be slow: the owner takes the lowest bit before the summary bits are set.
TEST_P(FreedMapTest, LateSummaryBitsAreHarmless) {
  const BlockNumber slow = 5;
  words_[slow / 64].fetch_or(std::uint64_t{1} << slow % 64);
  map_.mark(6);
  EXPECT_EQ(taken(), (std::vector<BlockNumber>{slow, 6}));
  middle(slow).fetch_or(std::uint64_t{1} << slow / 64 % 64);
  top_.fetch_or(1);
  EXPECT_TRUE(map_.any());
  EXPECT_TRUE(taken().empty());
  EXPECT_TRUE(empty());
}

INSTANTIATE_TEST_SUITE_P(Sizes, FreedMapTest,
                         ::testing::Values(1u << 12, 1u << 13, 1u << 16, 1u << 18, 1u << 20,
                                           1u << 24),
                         [](const auto& test) { return std::to_string(test.param); });

TEST(FreedMap, ConcurrentMarksAreNotLost) {
  constexpr std::uint32_t kMax = 1u << 13;
  std::atomic<std::uint64_t> top{0};
  std::vector<std::atomic<std::uint64_t>> words(kMax / 64 + kMax / 4096);
  const FreedMap map(&top, words.data(), kMax);
  std::vector<int> found(kMax, 0);  // the owner's
  std::atomic<int> marking{4};
  {
    std::vector<std::jthread> markers;
    for (std::uint32_t part = 0; part < 4; ++part) {
      markers.emplace_back([&, part] {
        for (BlockNumber block = part; block < kMax; block += 4) map.mark(block);
        marking.fetch_sub(1);
      });
    }
    while (marking.load() != 0) map.take([&](BlockNumber block) { ++found[block]; });
  }
  map.take([&](BlockNumber block) { ++found[block]; });
  EXPECT_EQ(std::count(found.begin(), found.end(), 1), kMax) << "each was marked once";
}

}  // namespace
}  // namespace shmtensor
