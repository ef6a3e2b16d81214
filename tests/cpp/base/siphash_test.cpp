#include "base/siphash.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace shmtensor {
namespace {

// From the reference implementation: key 00..0f, input 00..(n-1).
TEST(SipHash, MatchesTheReferenceVectors) {
  const SipKey key{0x0706050403020100, 0x0f0e0d0c0b0a0908};
  std::array<unsigned char, 64> input{};
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<unsigned char>(i);
  EXPECT_EQ(siphash(key, input.data(), 0), 0x726fdb47dd0e0e31u);
  EXPECT_EQ(siphash(key, input.data(), 1), 0x74f839c593dc67fdu);
  EXPECT_EQ(siphash(key, input.data(), 8), 0x93f5f5799a932462u);
  EXPECT_EQ(siphash(key, input.data(), 15), 0xa129ca6149be45e5u);
}

}  // namespace
}  // namespace shmtensor
