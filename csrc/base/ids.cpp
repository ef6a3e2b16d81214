#include "base/ids.hpp"

#include <cstdio>

#include "base/siphash.hpp"

namespace shmtensor {
namespace {

int hex_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string SessionId::hex() const {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return text;
}

SessionId SessionId::parse(std::string_view text) {
  std::array<std::uint64_t, 2> words{};
  bool digits = text.size() == 32;
  for (std::size_t i = 0; digits && i < 32; ++i) {
    const int value = hex_value(text[i]);
    digits = value >= 0;
    words[i / 16] = words[i / 16] << 4 | static_cast<std::uint64_t>(value & 15);
  }
  if (!digits) {
    words = {siphash(SipKey{1, 0}, text.data(), text.size()),
             siphash(SipKey{2, 0}, text.data(), text.size())};
  }
  return {words[0], words[1]};
}

}  // namespace shmtensor
