// The name of a ticket, written where other processes find it: in a block that contains messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "arena/transit.hpp"
#include "base/atomic.hpp"
#include "base/ids.hpp"

namespace shmtensor {

/// The sender writes the record before it issues the ticket, so a ticket whose sender was killed
/// can be cancelled. A record of a ticket that was never issued, or is consumed, does no harm:
/// a claim of it fails.
///
/// Processes: one writes at a time; every process may read.
struct TicketRecord {
  Atomic<std::uint64_t> block;  ///< arena:32 | block:32
  Atomic<std::uint64_t> mark;   ///< generation:32 | serial:32
  Atomic<std::uint64_t> name;   ///< group:32 | sender:16 | bit:8 | 1; 0: names no ticket

  void write(const NamedTicket& named) noexcept {
    constexpr std::memory_order kInOrder = std::memory_order_release;
    name.store(0, kInOrder);  // so that no reader combines the parts of two tickets
    block.store(std::uint64_t{named.arena} << 32 | named.block, kInOrder);
    mark.store(std::uint64_t{named.generation} << 32 | named.ticket.serial, kInOrder);
    name.store(std::uint64_t{named.ticket.group} << 32 | std::uint64_t{named.ticket.sender} << 16 |
                   std::uint64_t{named.ticket.bit} << 8 | 1,
               kInOrder);
  }
  void clear() noexcept { name.store(0); }

  /// Nothing if the record names no ticket.
  [[nodiscard]] std::optional<NamedTicket> read() const noexcept {
    const std::uint64_t named = name.load();
    if ((named & 1) == 0) return std::nullopt;
    const std::uint64_t where = block.load();
    const std::uint64_t when = mark.load();
    return NamedTicket{.arena = static_cast<ArenaNumber>(where >> 32),
                       .block = static_cast<BlockNumber>(where),
                       .generation = static_cast<Generation>(when >> 32),
                       .ticket = {.sender = static_cast<SlotNumber>(named >> 16),
                                  .bit = static_cast<std::uint8_t>(named >> 8),
                                  .group = static_cast<std::uint32_t>(named >> 32),
                                  .serial = static_cast<std::uint32_t>(when)}};
  }
};
static_assert(sizeof(TicketRecord) == 24);

/// Which ticket records a block contains: kind:8 | stride:8 | first:16 | count:32. The stride is
/// in units of 32 bytes, `first` the offset of the first record. Zero: no records.
struct TicketContents {
  enum class Kind : std::uint8_t {
    none = 0,
    message = 1,    ///< or a ring of messages
    queue = 2,      ///< the first block of a queue, which has locks and waiters
    broadcast = 3,  ///< likewise
    primitive = 4,  ///< of synchronization; has no tickets
    cache = 5,      ///< the first block of a cache, which has a lock and waiters
    pipe_end = 6,   ///< has no tickets; its end is noticed
  };

  Kind kind = Kind::none;
  std::uint32_t stride = 0;  ///< bytes
  std::uint32_t first = 0;   ///< bytes
  std::uint32_t count = 0;

  [[nodiscard]] constexpr std::uint64_t bits() const noexcept {
    return std::uint64_t{static_cast<std::uint8_t>(kind)} << 56 |
           std::uint64_t{stride / 32 & 0xff} << 48 | std::uint64_t{first & 0xffff} << 32 | count;
  }
  static constexpr TicketContents of(std::uint64_t bits) noexcept {
    return {.kind = static_cast<Kind>(bits >> 56),
            .stride = static_cast<std::uint32_t>(bits >> 48 & 0xff) * 32,
            .first = static_cast<std::uint32_t>(bits >> 32 & 0xffff),
            .count = static_cast<std::uint32_t>(bits)};
  }
  /// Return true if a block with this description may contain tickets.
  [[nodiscard]] static constexpr bool must_drain(std::uint64_t bits) noexcept {
    return bits != 0 && of(bits).kind != Kind::primitive;
  }
  /// Return true if all records are aligned and inside a block of that size.
  [[nodiscard]] constexpr bool fit(std::uint64_t size) const noexcept {
    if (count == 0) return true;
    return stride >= 32 && first % 8 == 0 &&
           first + std::uint64_t{count - 1} * stride + sizeof(TicketRecord) <= size;
  }
  /// Of a block that they fit.
  [[nodiscard]] const TicketRecord& record(std::span<const std::byte> bytes,
                                           std::uint32_t number) const noexcept {
    return *reinterpret_cast<const TicketRecord*>(bytes.data() + first +
                                                  std::uint64_t{number} * stride);
  }
};

}  // namespace shmtensor
