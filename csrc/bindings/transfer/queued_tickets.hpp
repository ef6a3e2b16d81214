// The tickets of a message of a queue, which are named in records beside the message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "arena/arena.hpp"
#include "arena/ticket_record.hpp"
#include "base/ids.hpp"
#include "bindings/session/origin.hpp"
#include "session/handle.hpp"
#include "session/pinned_arena.hpp"

namespace shmtensor::python {

/// The tickets are issued when the message has memory for their records: if this process is killed
/// before the message is in the queue, the manager finds those that were issued.
/// Threads: one at a time.
class QueuedTickets {
 public:
  /// Of tensors of this session, that of the queue.
  explicit QueuedTickets(const SessionId& session) : session_(session) {}
  ~QueuedTickets() { static_cast<void>(discard()); }
  QueuedTickets(const QueuedTickets&) = delete;
  QueuedTickets& operator=(const QueuedTickets&) = delete;

  [[nodiscard]] const SessionId& session() const noexcept { return session_; }
  [[nodiscard]] std::size_t size() const noexcept { return queued_.size(); }
  /// The bytes of the blocks whose tickets were issued.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

  /// Adds a ticket for a block that the caller holds, to which this object has a reference, too,
  /// until the ticket is issued. Returns the number of its record.
  RecordNumber add(Arena& arena, BlockNumber block, Generation generation);
  /// Issues the tickets. The records are in a block of the session. Throws OutOfMemory.
  void issue_into(std::span<TicketRecord* const> records);

  /// The tickets now belong to the reader of the message.
  void delivered() noexcept;
  /// Cancels the tickets: no process will read the message. Returns false in a forked child, where
  /// it does nothing, because the message is its parent's.
  bool discard() noexcept;

 private:
  struct Queued {
    PinnedArena arena;
    BlockNumber block;
    Generation generation;
    std::optional<Ticket> ticket;  ///< once it is issued
  };

  SessionId session_;
  std::vector<Queued> queued_;
  std::uint64_t bytes_ = 0;
  Origin origin_;
};

}  // namespace shmtensor::python
