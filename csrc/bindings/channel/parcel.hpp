// A message that does not fit into the entry of a queue: a block with its bytes and its tickets.
#pragma once

#include "bindings/support/python.hpp"
// Python's headers come before all others.
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "arena/ticket_record.hpp"
#include "bindings/transfer/queued_tickets.hpp"
#include "session/held_block.hpp"
#include "session/session.hpp"

namespace shmtensor::python {

/// The layout: header | ticket records | content. A reader claims the tickets and then declares
/// that the block contains none, so that it can be freed without the manager's help.
struct ParcelHeader {
  std::uint64_t tickets;
  std::uint64_t reserved[3];
};
struct ParcelRecord {
  TicketRecord ticket;
  std::uint64_t reserved;
};
static_assert(sizeof(ParcelHeader) == 32 && sizeof(ParcelRecord) == 32);

/// A new parcel, with the tickets, which are issued. Called with the GIL. Throws OutOfMemory.
[[nodiscard]] HeldBlock make_parcel(Session& session, std::span<const std::byte> content,
                                    QueuedTickets& tickets);

/// A parcel that was taken out of a queue.
/// Threads: one, with the GIL.
class IncomingParcel {
 public:
  /// With `shared`, other processes read the same parcel, and none claims its tickets.
  IncomingParcel(Session& session, HeldBlock block, bool shared) noexcept
      : session_(session), block_(std::move(block)), shared_(shared) {}
  ~IncomingParcel();
  IncomingParcel(const IncomingParcel&) = delete;
  IncomingParcel& operator=(const IncomingParcel&) = delete;

  /// To be called once. Throws StaleHandle if the block is damaged.
  [[nodiscard]] std::span<const std::byte> content();
  /// In the order of the records; after `content`.
  [[nodiscard]] std::span<const NamedTicket> tickets() const noexcept { return tickets_; }
  /// The storage of the next ticket's block, for a message that needs no pickle; after `content`.
  /// Throws StaleHandle.
  [[nodiscard]] py::object next_storage(std::uint8_t strategy, Access access);

 private:
  void fetch_ahead() noexcept;

  Session& session_;
  HeldBlock block_;
  bool shared_;
  std::span<std::byte> bytes_;  ///< empty until `tickets_` is complete
  std::vector<NamedTicket> tickets_;
  std::size_t next_ = 0;
  std::size_t fetched_ = 0;
  PinnedArena arena_;  ///< of the last storage
};

}  // namespace shmtensor::python
