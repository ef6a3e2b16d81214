// A tensor in a message, and the handle: the bytes that refer to it in a pickle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "arena/layout.hpp"
#include "arena/transit.hpp"
#include "base/ids.hpp"
#include "base/siphash.hpp"
#include "os/mapping.hpp"

namespace shmtensor {

/// The number of a ticket record in a message.
enum class RecordNumber : std::uint32_t {};
/// Others consume the ticket.
struct NoTicket {};
/// Where the ticket is that the reader of a tensor consumes: here, or in a record of the message,
/// or nowhere.
using TicketSource = std::variant<Ticket, RecordNumber, NoTicket>;

/// A tensor, or a storage, in a message: of a pipe, where it is written as a handle, or of a queue.
/// Only a message of a queue that is one tensor needs none, since its entry names the block.
struct TensorReference {
  SessionId session;
  ArenaNumber arena = 0;
  BlockNumber block = 0;
  Generation generation = 0;
  Strategy strategy = Strategy::file_descriptor;
  Access access = Access::read_write;  ///< with which the reader maps the block
  TicketSource ticket;
  std::span<const std::byte> view;  ///< data of the layer above; empty for a storage
};

/// A handle, little-endian:
///
///   version:1 flags:1 sender:2 | arena:4 | block:4 | generation:4 | group:4 | serial:4 |
///   session:16 | view | signature:8
///
/// If the ticket is in a record, kMaxSlots is in the place of its sender, and the number of the
/// record in that of its group; without a ticket, kMaxSlots + 1 is there. The signature is of all
/// bytes before it, with the key of the session. A process without the key cannot sign a modified
/// handle.
[[nodiscard]] constexpr std::size_t handle_size(std::size_t view) noexcept { return 48 + view; }

/// Writes a handle of `handle_size` bytes.
void encode(const TensorReference& reference, SipKey key, std::span<std::byte> out);

/// Throws StaleHandle if the bytes are not a handle of this version. The view is part of them.
[[nodiscard]] TensorReference decode(std::span<const std::byte> handle);

/// Throws StaleHandle if the signature is wrong.
void check_signature(SipKey key, std::span<const std::byte> handle);

}  // namespace shmtensor
