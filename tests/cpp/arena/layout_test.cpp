#include "arena/layout.hpp"

#include <gtest/gtest.h>

namespace shmtensor {
namespace {

TEST(SegmentLayout, PartsDoNotOverlap) {
  for (std::uint32_t blocks = 4096; blocks <= 1u << 24; blocks *= 2) {
    const SegmentLayout g{blocks, 2 * kMiB};
    EXPECT_TRUE(g.valid());
    EXPECT_GE(g.records(), sizeof(ArenaHeader));
    EXPECT_GE(g.freed(), g.records() + std::uint64_t{blocks} * sizeof(BlockRecord));
    EXPECT_GE(g.holders(0), g.freed() + blocks / 8 + blocks / 512);
    for (std::uint32_t plane = 1; plane < kPlanes; ++plane) {
      EXPECT_GE(g.holders(plane), g.holders(plane - 1) + std::uint64_t{blocks} * 8);
      EXPECT_GE(g.senders(plane), g.senders(plane - 1) + std::uint64_t{blocks} * 8);
    }
    EXPECT_GE(g.senders(0), g.holders(kPlanes - 1) + std::uint64_t{blocks} * 8);
    EXPECT_GE(g.data(), g.senders(kPlanes - 1) + std::uint64_t{blocks} * 8);
    EXPECT_EQ(g.data() % (2 * kMiB), 0u);
    EXPECT_EQ(g.freed() % SegmentLayout::kPart, 0u);
    EXPECT_EQ(g.holders(3) % SegmentLayout::kPart, 0u);
  }
}

TEST(SegmentLayout, OnlyIndexableMappableSizesAreValid) {
  EXPECT_FALSE((SegmentLayout{0, 2 * kMiB}).valid());
  EXPECT_FALSE((SegmentLayout{2048, 2 * kMiB}).valid());
  EXPECT_FALSE((SegmentLayout{4097, 2 * kMiB}).valid());
  EXPECT_FALSE((SegmentLayout{1u << 25, 2 * kMiB}).valid());
  EXPECT_FALSE((SegmentLayout{4096, 0}).valid());
  EXPECT_FALSE((SegmentLayout{4096, 2 * kMiB + 1}).valid());
  EXPECT_FALSE((SegmentLayout{4096, std::uint64_t{1} << 47}).valid());
  EXPECT_TRUE((SegmentLayout{4096, std::uint64_t{1} << 46}).valid());
}

TEST(SegmentLayout, EverySlotHasItsOwnBit) {
  EXPECT_EQ(plane_of(0), 0u);
  EXPECT_EQ(plane_of(63), 0u);
  EXPECT_EQ(plane_of(64), 1u);
  EXPECT_EQ(plane_of(kMaxSlots - 1), kPlanes - 1);
  EXPECT_EQ(bit_of(0), 1u);
  EXPECT_EQ(bit_of(63), std::uint64_t{1} << 63);
  EXPECT_EQ(bit_of(64), 1u);
}

}  // namespace
}  // namespace shmtensor
