#include "session/handle.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "base/error.hpp"

namespace shmtensor {
namespace {

static_assert(std::endian::native == std::endian::little, "handles are little-endian");

constexpr std::uint8_t kHandleVersion = 1;
constexpr std::uint8_t kReadOnly = 1;
constexpr unsigned kStrategyShift = 1;  // two bits: the strategy, from 0
constexpr unsigned kBitShift = 3;       // the ticket's bit, 0 to 31, in the upper five bits
constexpr SlotNumber kInRecord = kMaxSlots;
constexpr SlotNumber kNowhere = kMaxSlots + 1;

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
using Signature = std::uint64_t;
static_assert(sizeof(Wire) + sizeof(Signature) == handle_size(0));

Ticket to_wire(const TicketSource& source) {
  if (const auto* ticket = std::get_if<Ticket>(&source)) return *ticket;
  if (const auto* record = std::get_if<RecordNumber>(&source)) {
    return {.sender = kInRecord, .group = static_cast<std::uint32_t>(*record)};
  }
  return {.sender = kNowhere};
}

TicketSource from_wire(const Ticket& ticket) noexcept {
  if (ticket.sender == kInRecord) return RecordNumber{ticket.group};
  if (ticket.sender == kNowhere) return NoTicket();
  return ticket;
}

Signature signature_of(SipKey key, std::span<const std::byte> handle) noexcept {
  return siphash(key, handle.data(), handle.size() - sizeof(Signature));
}

}  // namespace

void encode(const TensorReference& reference, SipKey key, std::span<std::byte> out) {
  const bool read_only = reference.access == Access::read_only;
  const unsigned strategy = (static_cast<unsigned>(reference.strategy) - 1) << kStrategyShift;
  const Ticket ticket = to_wire(reference.ticket);
  const Wire wire{kHandleVersion,
                  static_cast<std::uint8_t>((read_only ? kReadOnly : 0u) | strategy |
                                            unsigned{ticket.bit} << kBitShift),
                  ticket.sender,
                  reference.arena,
                  reference.block,
                  reference.generation,
                  ticket.group,
                  ticket.serial,
                  reference.session.high,
                  reference.session.low};
  std::memcpy(out.data(), &wire, sizeof wire);
  std::ranges::copy(reference.view, out.begin() + sizeof wire);
  const Signature signature = signature_of(key, out);
  std::memcpy(out.last<sizeof signature>().data(), &signature, sizeof signature);
}

TensorReference decode(std::span<const std::byte> handle) {
  if (handle.size() < handle_size(0)) {
    throw StaleHandle("cannot read a tensor's handle: " + std::to_string(handle.size()) +
                      " bytes are not enough; the message was truncated");
  }
  Wire wire{};
  std::memcpy(&wire, handle.data(), sizeof wire);
  if (wire.version != kHandleVersion || wire.sender > kNowhere) {
    throw StaleHandle(
        "cannot read a tensor's handle: it is damaged, or was written by another version of "
        "shmtensor");
  }
  const Ticket ticket{wire.sender, static_cast<std::uint8_t>(wire.flags >> kBitShift), wire.group,
                      wire.serial};
  return {.session = {wire.session_high, wire.session_low},
          .arena = wire.arena,
          .block = wire.block,
          .generation = wire.generation,
          .strategy = static_cast<Strategy>((wire.flags >> kStrategyShift & 3u) + 1),
          .access = (wire.flags & kReadOnly) != 0 ? Access::read_only : Access::read_write,
          .ticket = from_wire(ticket),
          .view = handle.subspan(sizeof wire, handle.size() - handle_size(0))};
}

void check_signature(SipKey key, std::span<const std::byte> handle) {
  Signature signature = 0;
  std::memcpy(&signature, handle.last<sizeof signature>().data(), sizeof signature);
  if (signature_of(key, handle) != signature) {
    throw StaleHandle(
        "cannot use a tensor's handle: its signature is wrong; it is damaged or forged, or its "
        "session has ended");
  }
}

}  // namespace shmtensor
