#include "arena/block_word.hpp"

#include <gtest/gtest.h>

namespace shmtensor {
namespace {

constexpr Generation kLast = BlockWord::kLastGeneration;

TEST(BlockWord, StartsFreeAtGenerationZero) {
  constexpr BlockWord word;
  EXPECT_EQ(word.bits(), 0u);
  EXPECT_FALSE(word.live());
  EXPECT_EQ(word.generation(), 0u);
}

TEST(BlockWord, LiveAndFreeShareOneGeneration) {
  constexpr BlockWord live = BlockWord::live_at(7);
  EXPECT_TRUE(live.live());
  EXPECT_TRUE(live.live_at_generation(7));
  EXPECT_FALSE(live.live_at_generation(6));
  constexpr BlockWord free = BlockWord::free_at(7);
  EXPECT_FALSE(free.live());
  EXPECT_EQ(free.generation(), 7u);
  EXPECT_FALSE(free.live_at_generation(7));
}

TEST(BlockWord, EpochChangesNothingElse) {
  BlockWord word = BlockWord::live_at(7);
  const BlockWord next = word.next_epoch();
  EXPECT_NE(next.bits(), word.bits());
  EXPECT_TRUE(next.live_at_generation(7));
  EXPECT_NE(next.next_epoch().bits(), word.bits());
}

TEST(BlockWord, EpochWrapsWithoutChangingGeneration) {
  for (const Generation generation : {0u, 7u, kLast}) {
    const BlockWord full(std::uint64_t{generation} << 32 | 0xffffffff);
    const BlockWord wrapped = full.next_epoch();
    EXPECT_EQ(wrapped.bits(), BlockWord::live_at(generation).bits());
    EXPECT_EQ(wrapped.generation(), generation);
    EXPECT_TRUE(wrapped.live());
  }
  const BlockWord full_free(0x7fffffffe);
  EXPECT_FALSE(full_free.next_epoch().live());
  EXPECT_EQ(full_free.next_epoch().generation(), 7u);
}

TEST(BlockWord, FreeingAdvancesGenerationAndClearsEpoch) {
  const BlockWord freed = BlockWord::live_at(7).next_epoch().next_epoch().freed();
  EXPECT_EQ(freed.bits(), BlockWord::free_at(8).bits());
  // A compare-and-swap with the word before cannot succeed twice.
  EXPECT_NE(freed.bits(), BlockWord::live_at(7).bits());
}

TEST(BlockWord, LastGenerationIsNotAdvanced) {
  const BlockWord freed = BlockWord::live_at(kLast).freed();
  EXPECT_FALSE(freed.live());
  EXPECT_EQ(freed.generation(), kLast);
  EXPECT_EQ(BlockWord::live_at(kLast - 1).freed().generation(), kLast);
}

}  // namespace
}  // namespace shmtensor
