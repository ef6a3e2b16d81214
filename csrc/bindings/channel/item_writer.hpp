// Writes simple objects, and tensors among them, without the pickler.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "bindings/channel/item_format.hpp"
#include "bindings/support/python.hpp"
#include "bindings/tensor/tensor.hpp"
#include "bindings/transfer/queued_tickets.hpp"
#include "session/session.hpp"

namespace shmtensor::python {

/// Return true if a handle without a pickle describes the tensor: in host memory of the session,
/// of a dtype that has a code.
[[nodiscard]] bool is_plain(const Tensor& tensor, const Storage& storage, const Session& session);

/// The access with which the reader of a message maps the tensor's block.
[[nodiscard]] Access reader_access(const Tensor& tensor, const Storage& storage) noexcept;

/// Threads: one, with the GIL.
class ItemWriter {
 public:
  /// Appends to `bytes`, and the tickets of the tensors to `tickets`.
  ItemWriter(std::vector<std::byte>& bytes, QueuedTickets& tickets, const Session& session) noexcept
      : bytes_(bytes), tickets_(tickets), session_(session) {}

  /// Returns false for an object that must be pickled; what was appended is of no use then.
  [[nodiscard]] bool write(PyObject* object);

 private:
  [[nodiscard]] bool write_flat(PyObject* object);
  [[nodiscard]] bool write_tensor(const Tensor& tensor);
  [[nodiscard]] bool write_sequence(ItemTag tag, PyObject* items);
  void append(const void* data, std::size_t size);
  // Return true, as does what writes an item.
  bool append_tag(ItemTag tag);
  template <typename Value>
  bool append_value(ItemTag tag, const Value& value);
  bool append_sized(ItemTag tag, std::span<const std::byte> content);

  std::vector<std::byte>& bytes_;
  QueuedTickets& tickets_;
  const Session& session_;
};

}  // namespace shmtensor::python
