// A Python object as the message of a queue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bindings/support/python.hpp"
#include "bindings/transfer/queued_tickets.hpp"
#include "bindings/transfer/send_scope.hpp"
#include "channel/queue.hpp"

namespace shmtensor::python {

/// How many processes read a message.
enum class Readers : std::uint8_t {
  one,   ///< it consumes the tickets of the message, also if it fails
  many,  ///< none does
};

/// The message of an object. A tensor in host memory of the session, None, bool, int, float, bytes,
/// str, and flat tuples and lists of those take no pickle. Unless the message is delivered, its
/// tickets are cancelled.
/// Threads: one.
class EncodedMessage {
 public:
  /// `dumps` pickles in place of the pickler of all queues, unless it is null. Throws what the
  /// pickler throws, OutOfMemory, and, for many readers, TypeError if the object has a tensor of
  /// another session, of which the ticket is in its handle.
  EncodedMessage(Session& session, py::object object, PyObject* dumps, Readers readers);
  /// Of bytes that were not pickled from an object: see `is_raw`. They must outlive this object.
  EncodedMessage(Session& session, std::span<const std::byte> raw);
  ~EncodedMessage();
  EncodedMessage(const EncodedMessage&) = delete;
  EncodedMessage& operator=(const EncodedMessage&) = delete;

  [[nodiscard]] const Outgoing& get() const noexcept { return message_; }
  void delivered() noexcept;

 private:
  void encode(Session& session);
  [[nodiscard]] bool refer_to_tensor(const Session& session);
  void pickle(Session& session);
  void place(Session& session, std::uint32_t kind, std::span<const std::byte> content);

  PyObject* const dumps_ = nullptr;
  py::object object_;               // with the tensor's block, or the bytes
  std::vector<std::byte> bytes_;    // of a small object
  std::uint64_t copied_bytes_ = 0;  // by the pickler, into blocks
  Outgoing message_;
  Readers readers_ = Readers::one;
  HeldBlock parcel_;
  QueuedTickets tickets_;
  std::optional<SendScope> scope_;  // of a pickle: has the tickets of tensors of other sessions
};

/// Return true if `decode_message` returns bytes that were not pickled.
[[nodiscard]] bool is_raw(const Incoming& message) noexcept;

/// What pickles the messages of all broadcasts.
[[nodiscard]] PyObject* broadcast_dumps() noexcept;

/// The object of a message, from which its block is taken. Throws what the unpickler throws, and
/// StaleHandle if the message is damaged.
[[nodiscard]] py::object decode_message(Session& session, Incoming& message,
                                        Readers readers = Readers::one);

/// Cancels the tickets of a message that no process will read.
void discard_message(Session& session, Incoming message);

void add_encoding(py::module_& module);

}  // namespace shmtensor::python
