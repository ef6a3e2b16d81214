// The handle: the bytes that refer to a tensor in a pickle.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "arena/layout.hpp"
#include "arena/transit.hpp"
#include "base/ids.hpp"
#include "base/siphash.hpp"
#include "os/mapping.hpp"

namespace shmtensor {

/// As the sender of a handle's ticket: the ticket is not in the handle, but in the record of that
/// number in the message, see ReadScope.
inline constexpr SlotNumber kInMessage = kMaxSlots;

/// Identifies a block, and the ticket of the message that carries the handle.
struct Handle {
  SessionId session;
  ArenaNumber arena = 0;
  BlockNumber block = 0;
  Generation generation = 0;
  Ticket ticket;
  Strategy strategy = Strategy::file_descriptor;
  Access access = Access::read_write;
};

/// The encoded form, little-endian:
///
///   version:1 flags:1 sender:2 | arena:4 | block:4 | generation:4 | group:4 | serial:4 |
///   session:16
///
/// The layer above appends its data. The last 8 bytes are a signature of all bytes before them,
/// with the key of the session. A process without the key cannot sign a modified handle.
inline constexpr std::size_t kHandleSize = 40;
inline constexpr std::size_t kSignatureSize = 8;
inline constexpr std::uint8_t kHandleVersion = 1;

void encode(const Handle& handle, std::span<std::byte, kHandleSize> out) noexcept;

/// Throws StaleHandle if the bytes are not a handle of this version.
[[nodiscard]] Handle decode(std::span<const std::byte> bytes);

/// Signs all bytes except the last 8, which receive the signature.
void sign(SipKey key, std::span<std::byte> bytes) noexcept;

/// Throws StaleHandle if the last 8 bytes are not the signature of the others.
void check_signature(SipKey key, std::span<const std::byte> bytes);

}  // namespace shmtensor
