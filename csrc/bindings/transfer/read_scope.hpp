// The tickets of a message that is unpickled.
#pragma once

#include <span>

#include "arena/transit.hpp"
#include "bindings/support/python.hpp"
#include "bindings/transfer/scope.hpp"
#include "session/handle.hpp"

namespace shmtensor::python {

/// A message of which this process is not the only reader, or that names its tickets in records.
/// Any other needs no scope: its handles have their tickets, which their reader consumes.
class ReadScope : public Scope<ReadScope> {
 public:
  /// Of a message, such as that of a published name, that others will read, too: no ticket is
  /// consumed.
  ReadScope() : shared_(true) {}
  /// Of a message of a queue of that session. The records stay with the caller. With `shared`, no
  /// ticket is consumed.
  ReadScope(const SessionId& session, std::span<const NamedTicket> records, bool shared)
      : session_(session), records_(records), shared_(shared) {}
  ~ReadScope() { close(); }

  /// The ticket that the reader of a tensor consumes: that of the reference, or that of the record
  /// to which it refers; NoTicket if it is left to others. Throws StaleHandle if the thread reads
  /// no message with that record.
  [[nodiscard]] static TicketSource ticket_of(const TensorReference& reference);

 private:
  SessionId session_;
  std::span<const NamedTicket> records_;
  bool shared_;
};

void add_read_scope(py::module_& module);

}  // namespace shmtensor::python
