#include "base/siphash.hpp"

#include <bit>
#include <cstring>

namespace shmtensor {
namespace {

struct State {
  std::uint64_t v0, v1, v2, v3;

  void rounds(int n) noexcept {
    for (; n > 0; --n) {
      v0 += v1;
      v2 += v3;
      v1 = std::rotl(v1, 13) ^ v0;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 = std::rotl(v0, 32);
      v2 += v1;
      v0 += v3;
      v1 = std::rotl(v1, 17) ^ v2;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 = std::rotl(v2, 32);
    }
  }
};

}  // namespace

std::uint64_t siphash(SipKey key, const void* data, std::size_t size) noexcept {
  State s{key.low ^ 0x736f6d6570736575, key.high ^ 0x646f72616e646f6d, key.low ^ 0x6c7967656e657261,
          key.high ^ 0x7465646279746573};
  const auto* bytes = static_cast<const unsigned char*>(data);
  std::uint64_t word = 0;
  for (std::size_t left = size; left >= 8; left -= 8, bytes += 8) {
    std::memcpy(&word, bytes, 8);
    s.v3 ^= word;
    s.rounds(2);
    s.v0 ^= word;
  }
  word = static_cast<std::uint64_t>(size) << 56;
  for (std::size_t i = 0; i < size % 8; ++i) word |= static_cast<std::uint64_t>(bytes[i]) << 8 * i;
  s.v3 ^= word;
  s.rounds(2);
  s.v0 ^= word;
  s.v2 ^= 0xff;
  s.rounds(4);
  return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

}  // namespace shmtensor
