// Reads the bytes that ItemWriter has written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "bindings/channel/parcel.hpp"
#include "bindings/support/python.hpp"

namespace shmtensor::python {

/// Threads: one.
class ItemReader {
 public:
  /// `parcel` has the tensors; it is null if the message has none.
  ItemReader(std::span<const std::byte> bytes, IncomingParcel* parcel) noexcept
      : bytes_(bytes), parcel_(parcel) {}

  /// Throws StaleHandle if the bytes are not an item, or a tensor was freed.
  [[nodiscard]] py::object read() { return read_item(true); }

 private:
  [[nodiscard]] py::object read_item(bool may_nest);
  [[nodiscard]] py::object read_tensor();
  [[nodiscard]] py::object read_sequence(PyObject* (*make)(Py_ssize_t));
  [[nodiscard]] std::span<const std::byte> take_sized();
  [[nodiscard]] const std::byte* take(std::uint64_t size);
  template <typename T>
  [[nodiscard]] T take_value();

  std::span<const std::byte> bytes_;
  IncomingParcel* parcel_;
};

}  // namespace shmtensor::python
