#include "session/handle.hpp"

#include <bit>
#include <cstring>
#include <string>

#include "base/error.hpp"

namespace shmtensor {
namespace {

static_assert(std::endian::native == std::endian::little, "handles are little-endian");

constexpr std::uint8_t kReadOnly = 1;
constexpr unsigned kStrategyShift = 1;  // two bits: the strategy, from 0
constexpr unsigned kBitShift = 3;       // the ticket's bit, 0 to 31, in the upper five bits

struct Wire {
  std::uint8_t version;
  std::uint8_t flags;
  std::uint16_t sender;
  std::uint32_t arena;
  std::uint32_t block;
  std::uint32_t generation;
  std::uint32_t group;
  std::uint32_t serial;
  std::uint64_t session_high;
  std::uint64_t session_low;
};
static_assert(sizeof(Wire) == kHandleSize);

}  // namespace

void encode(const Handle& handle, std::span<std::byte, kHandleSize> out) noexcept {
  const bool read_only = handle.access == Access::read_only;
  const unsigned strategy = (static_cast<unsigned>(handle.strategy) - 1) << kStrategyShift;
  const Wire wire{kHandleVersion,
                  static_cast<std::uint8_t>((read_only ? kReadOnly : 0u) | strategy |
                                            unsigned{handle.ticket.bit} << kBitShift),
                  handle.ticket.sender,
                  handle.arena,
                  handle.block,
                  handle.generation,
                  handle.ticket.group,
                  handle.ticket.serial,
                  handle.session.high,
                  handle.session.low};
  std::memcpy(out.data(), &wire, sizeof wire);
}

Handle decode(std::span<const std::byte> bytes) {
  if (bytes.size() < kHandleSize + kSignatureSize) {
    throw StaleHandle("cannot read a tensor's handle: " + std::to_string(bytes.size()) +
                      " bytes are not enough; the message was truncated");
  }
  Wire wire{};
  std::memcpy(&wire, bytes.data(), sizeof wire);
  if (wire.version != kHandleVersion || wire.sender > kInMessage) {
    throw StaleHandle(
        "cannot read a tensor's handle: it is damaged, or was written by another version of "
        "shmtensor");
  }
  return {.session = {wire.session_high, wire.session_low},
          .arena = wire.arena,
          .block = wire.block,
          .generation = wire.generation,
          .ticket = {wire.sender, static_cast<std::uint8_t>(wire.flags >> kBitShift), wire.group,
                     wire.serial},
          .strategy = static_cast<Strategy>((wire.flags >> kStrategyShift & 3u) + 1),
          .access = (wire.flags & kReadOnly) != 0 ? Access::read_only : Access::read_write};
}

void sign(SipKey key, std::span<std::byte> bytes) noexcept {
  const std::size_t size = bytes.size() - kSignatureSize;
  const std::uint64_t signature = siphash(key, bytes.data(), size);
  std::memcpy(bytes.data() + size, &signature, kSignatureSize);
}

void check_signature(SipKey key, std::span<const std::byte> bytes) {
  const std::size_t size = bytes.size() - kSignatureSize;
  std::uint64_t signature = 0;
  std::memcpy(&signature, bytes.data() + size, kSignatureSize);
  if (siphash(key, bytes.data(), size) != signature) {
    throw StaleHandle(
        "cannot use a tensor's handle: its signature is wrong; it is damaged or forged, or its "
        "session has ended");
  }
}

}  // namespace shmtensor
