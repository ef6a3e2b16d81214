// The tickets of a message, from pickling to delivery.
#pragma once

#include <memory>
#include <vector>

#include "arena/arena.hpp"
#include "bindings/support/python.hpp"
#include "bindings/transfer/queued_tickets.hpp"
#include "bindings/transfer/scope.hpp"
#include "session/handle.hpp"
#include "session/pinned_arena.hpp"

namespace shmtensor::python {

/// A message that is not delivered, because pickling or writing failed or its queue was destroyed,
/// has its tickets cancelled, so that nothing stays allocated for a reader that will never come.
class SendScope : public Scope<SendScope> {
 public:
  /// The tickets of an object under a name are persistent; `keep` follows. A borrowed message has
  /// no tickets: its sender holds the blocks until its readers do.
  explicit SendScope(TicketOf of = TicketOf::message, bool borrowed = false)
      : of_(of), borrowed_(borrowed) {}
  /// Of a message of a queue. Only tensors of other sessions have their tickets in their handles.
  explicit SendScope(QueuedTickets& queued) : queued_(&queued) {}
  /// Closes the scope, too: Python 3.14 may raise between `__enter__` and the body, and does not
  /// call `__exit__` then.
  ~SendScope();

  /// Issues a ticket for the message that is being pickled here, if there is one, or queues it. A
  /// borrowed message gets none.
  [[nodiscard]] static TicketSource issue(Arena& arena, BlockNumber block, Generation generation);
  /// Return true if a message for one reader is pickled here and now.
  [[nodiscard]] static bool has_one_reader() noexcept;

  /// Return true if no tensor has its ticket in its handle.
  [[nodiscard]] bool is_empty() const noexcept { return sent_.empty(); }

  /// Writes the message to a pipe or socket. One that was written whole is delivered; otherwise its
  /// tickets are cancelled, because no process can read it. Decided here, where no signal handler
  /// of Python's runs between the last byte and `delivered`.
  void write(int fd, const py::object& header, const py::object& content);
  /// The tickets now belong to the reader of the message.
  void delivered() noexcept;
  /// Cancels the tickets: no process will read the message. Does nothing in a forked child, because
  /// the message is its parent's.
  void discard() noexcept;

  /// The blocks stay allocated until their tickets are cancelled; `gc` does not cancel them for
  /// their age. `mark` is that of the name.
  void keep(std::uint32_t mark) noexcept;
  /// Returns the size of the blocks.
  [[nodiscard]] std::uint64_t nbytes() const;
  /// Return true if a block describes memory that another library has allocated.
  [[nodiscard]] bool has_external() const noexcept;
  /// The tickets as bytes, for `cancel_tickets`.
  [[nodiscard]] py::bytes tickets() const;

 private:
  struct Sent {
    PinnedArena arena;
    BlockNumber block;
    Generation generation;
    Ticket ticket;
  };

  /// The scope to which a ticket belongs that this thread issues, or null. A forked child runs on
  /// inside its parent's scope, which is not its own.
  [[nodiscard]] static SendScope* present() noexcept;

  std::vector<Sent> sent_;
  TicketOf of_ = TicketOf::message;
  bool borrowed_ = false;
  QueuedTickets* queued_ = nullptr;
};

void add_send_scope(py::module_& module);

}  // namespace shmtensor::python
