// The tickets of a message that is being written.
#pragma once

#include <cstdint>
#include <vector>

#include "arena/arena.hpp"
#include "bindings/support/python.hpp"

namespace shmtensor::python {

/// While an Outgoing is open in a thread, every ticket that the thread issues belongs to it. A
/// message that is not delivered, because pickling or writing failed or its queue was dropped,
/// takes its tickets back, so that nothing stays allocated for a reader that will never come.
class Outgoing {
 public:
  /// `to_keep`: the tickets are for a published name, and `keep` will follow.
  explicit Outgoing(bool to_keep = false);
  /// Also closes: Python 3.14 may raise between `__enter__` and the body, and then calls no
  /// `__exit__`.
  ~Outgoing();
  Outgoing(const Outgoing&) = delete;
  Outgoing& operator=(const Outgoing&) = delete;

  void open() noexcept;
  void close() noexcept;

  /// `write_message`. A message that was written whole is delivered, of any other the tickets are
  /// taken back: nobody can read it. Decided here, where no signal handler of Python's runs between
  /// the last byte and `delivered`.
  void write(int fd, const py::object& header, const py::object& content, const py::object& lock);

  /// The message is out of our hands: whoever reads it takes the tickets.
  void delivered() noexcept;
  /// Nobody will ever read it. In a child this does nothing: the message is the parent's.
  void discard() noexcept;

  /// What was pickled stays allocated until its tickets are spent; no age ends that.
  void keep() noexcept;
  /// The tickets, for `spend_tickets`.
  [[nodiscard]] py::bytes tickets() const;

  /// Are the tickets that this thread issues now to be kept?
  [[nodiscard]] static bool keeps() noexcept;

  /// To be called for each ticket issued.
  static void record(Arena& arena, BlockNumber block, Generation generation, const Ticket& ticket);

 private:
  struct Sent {
    Arena* arena;
    BlockNumber block;
    Generation generation;
    Ticket ticket;
  };

  /// The one that is open in this thread. A forked child runs on inside of its parent's, whose
  /// message is not its own.
  static Outgoing* current() noexcept;

  /// Return true if it was made by this process, not by one that it is a fork or a copy of.
  [[nodiscard]] bool is_ours() const noexcept;

  std::vector<Sent> sent_;
  Outgoing* outer_ = nullptr;
  std::uint32_t forks_;
  bool to_keep_;
};

/// While one is open in a thread, what the thread receives keeps its tickets: the handles are of
/// something published, which others will load too.
class Peek {
 public:
  void open() noexcept;
  void close() noexcept;
  [[nodiscard]] static bool is_open() noexcept;
};

/// While one is open in a thread, what the thread sends does not wait for the device: the message
/// has an event for which its reader waits.
class AfterEvent {
 public:
  AfterEvent() noexcept;
  ~AfterEvent();
  AfterEvent(const AfterEvent&) = delete;
  AfterEvent& operator=(const AfterEvent&) = delete;
  [[nodiscard]] static bool is_open() noexcept;
};

void add_message_scope(py::module_& module);

}  // namespace shmtensor::python
