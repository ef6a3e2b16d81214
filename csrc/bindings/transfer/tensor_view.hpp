// How a tensor lies over its storage, as bytes in a message.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "bindings/tensor/tensor.hpp"

namespace shmtensor::python {

/// The dtype, the shape, and the strides unless the tensor is in C order.
class ViewBytes {
 public:
  explicit ViewBytes(const Tensor& tensor) noexcept;
  [[nodiscard]] std::span<const std::byte> get() const noexcept { return {bytes_.data(), size_}; }

 private:
  static constexpr std::size_t kHeader = 16;

  void append(const void* data, std::size_t size) noexcept;

  std::array<std::byte, kHeader + 2 * kMaxDims * sizeof(std::int64_t)> bytes_;
  std::size_t size_ = 0;
};

/// The tensor over a storage. `dtype` is null for a dtype that has a code. Throws StaleHandle if
/// the bytes are damaged.
[[nodiscard]] py::object tensor_from_view(const py::object& storage,
                                          std::span<const std::byte> bytes, PyObject* dtype);

}  // namespace shmtensor::python
