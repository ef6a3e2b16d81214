// The tickets of a message, from pickling to delivery.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "arena/arena.hpp"
#include "arena/ticket_record.hpp"
#include "bindings/support/python.hpp"
#include "bindings/transfer/open_scopes.hpp"
#include "bindings/transfer/outgoing_pipe.hpp"
#include "session/handle.hpp"
#include "session/pinned_arena.hpp"

namespace shmtensor::python {

/// While a scope is open in a thread, the tensors that the thread pickles or unpickles belong to
/// its message: the pickler's hooks take no argument of ours. Scopes nest; a ticket belongs to the
/// last one that was opened in its context and is still open. Scopes may be closed in any order,
/// and destroyed by any thread. Greenlets of one thread have a context each (`OpenScopes`).
///
/// A message that is not delivered, because pickling or writing failed or its queue was destroyed,
/// has its tickets cancelled, so that nothing stays allocated for a reader that will never come.
/// Threads: one at a time.
class MessageScope {
 public:
  enum class Purpose : std::uint8_t {
    transient,   ///< a message that one reader consumes
    persistent,  ///< the handles of a published name; `keep` follows
    borrowed,    ///< reads a published name: consumes no ticket, since others will read it too
    queued,      ///< a message that names its tickets in records; `issue_into` follows
    records,     ///< reads such a message: the handles refer to the records by their numbers
  };

  /// `pipe` is the pipe into which the message will be written, if that is known.
  explicit MessageScope(Purpose purpose, std::shared_ptr<OutgoingPipe> pipe = nullptr);
  /// Queued. Tensors of other sessions have their tickets in their handles.
  explicit MessageScope(const SessionId& session);
  /// Closes the scope, too: Python 3.14 may raise between `__enter__` and the body, and does not
  /// call `__exit__` then.
  ~MessageScope();
  MessageScope(const MessageScope&) = delete;
  MessageScope& operator=(const MessageScope&) = delete;

  void open();
  void close() noexcept;

  /// `write_message`. A message that was written whole is delivered; otherwise its tickets are
  /// cancelled, because no process can read it. Decided here, where no signal handler of Python's
  /// runs between the last byte and `delivered`.
  void write(int fd, const py::object& header, const py::object& content);

  // --- queued ---

  /// Adds a ticket for a block that the caller holds. Returns the number of its record.
  std::uint32_t refer(Arena& arena, BlockNumber block, Generation generation);
  /// The number of tickets that the message needs. Until they are issued, the scope has a reference
  /// to each block.
  [[nodiscard]] std::size_t needed() const noexcept { return sent_.size(); }
  /// Return false if a tensor has its ticket in its handle.
  [[nodiscard]] bool needs_records_only() const noexcept;
  /// Issues the tickets. The records are in a block of the message's session. Throws OutOfMemory.
  void issue_into(std::span<TicketRecord* const> records);

  // --- records ---

  /// The tickets of the records stay with the caller. With `borrows`, none is consumed, since other
  /// processes read the message, too.
  MessageScope(const SessionId& session, std::span<const NamedTicket> records, bool borrows);
  /// The ticket that the reader of a handle consumes: its own, or that of the record to which it
  /// refers; nothing if the ticket is left to others. Throws StaleHandle if the thread reads no
  /// message with that record.
  [[nodiscard]] static std::optional<Ticket> ticket_of(const Handle& handle);

  /// The tickets now belong to the reader of the message.
  void delivered() noexcept;
  /// Cancels the tickets: no process will read the message. Does nothing in a forked child, because
  /// the message is its parent's.
  void discard() noexcept;

  /// The blocks stay allocated until their tickets are cancelled; `gc` does not cancel them for
  /// their age.
  void keep() noexcept;
  /// The tickets as bytes, for `cancel_tickets`.
  [[nodiscard]] py::bytes tickets() const;

  /// Issues a ticket for the message that is being pickled here, if there is one.
  [[nodiscard]] static Ticket issue(Arena& arena, BlockNumber block, Generation generation);
  /// Return true if a message for one reader is pickled here and now.
  [[nodiscard]] static bool has_one_reader() noexcept;

 private:
  struct Sent {
    PinnedArena arena;
    BlockNumber block;
    Generation generation;
    Ticket ticket;
  };

  /// The scope to which a ticket belongs that this thread issues, or null. A forked child runs on
  /// inside its parent's scope, which is not its own.
  static MessageScope* sender() noexcept;

  [[nodiscard]] bool reads() const noexcept {
    return purpose_ == Purpose::borrowed || purpose_ == Purpose::records;
  }
  /// Return true if the message that is read here and now is borrowed.
  [[nodiscard]] static bool borrows() noexcept;
  /// Return true if this process made the scope, not one that it is a fork or a raw copy of.
  [[nodiscard]] bool is_ours() const noexcept;
  /// Empties the list without a change of an arena's pins unless the scope is ours.
  void clear() noexcept;

  std::vector<Sent> sent_;
  std::shared_ptr<ScopeLink> link_;  ///< null unless open
  std::uint32_t forks_;
  Purpose purpose_;
  std::shared_ptr<OutgoingPipe> pipe_;
  SessionId session_;                     ///< queued, records
  std::span<const NamedTicket> records_;  ///< records
  bool borrows_ = false;                  ///< borrowed; some records
};

void add_message_scope(py::module_& module);

}  // namespace shmtensor::python
