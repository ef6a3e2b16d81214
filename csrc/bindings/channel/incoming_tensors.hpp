// The tensors of a message that needs no pickle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arena/transit.hpp"
#include "bindings/support/python.hpp"
#include "session/session.hpp"

namespace shmtensor::python {

/// Receives the blocks that the tickets of a message name, in the order of the tickets.
/// Threads: one, with the GIL.
class IncomingTensors {
 public:
  /// The tickets belong to the caller. With `shared`, none is consumed, since other processes read
  /// the message, too.
  IncomingTensors(Session& session, std::span<const NamedTicket> tickets, bool shared) noexcept;

  /// The storage of the next ticket's block. Throws StaleHandle.
  [[nodiscard]] py::object next(std::uint8_t strategy, Access access);

 private:
  void fetch_ahead() noexcept;

  Session& session_;
  std::span<const NamedTicket> tickets_;
  bool shared_;
  std::size_t next_ = 0;
  std::size_t fetched_ = 0;
  PinnedArena arena_;  ///< of the last block
};

}  // namespace shmtensor::python
