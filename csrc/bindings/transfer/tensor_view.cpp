#include "bindings/transfer/tensor_view.hpp"

#include <cstring>

#include "base/error.hpp"

namespace shmtensor::python {
namespace {

struct ViewHeader {
  std::uint8_t dtype;
  std::uint8_t dims;
  std::uint8_t read_only;
  std::uint8_t contiguous;
  std::uint32_t reserved;
  std::int64_t offset;
};

}  // namespace

ViewBytes::ViewBytes(const Tensor& tensor) noexcept {
  const ViewHeader view{tensor.dtype_code, tensor.dims, tensor.read_only,
                        tensor.contiguous, 0,           tensor.offset};
  static_assert(sizeof view == kHeader);
  append(&view, sizeof view);
  append(tensor.shape().data(), tensor.shape().size_bytes());
  if (!tensor.contiguous) append(tensor.strides().data(), tensor.strides().size_bytes());
}

void ViewBytes::append(const void* data, std::size_t size) noexcept {
  std::memcpy(bytes_.data() + size_, data, size);
  size_ += size;
}

py::object tensor_from_view(const py::object& storage, std::span<const std::byte> bytes,
                            PyObject* dtype) {
  const auto damaged = [] {
    return StaleHandle("cannot read a tensor's handle: its shape is damaged");
  };
  if (bytes.size() < sizeof(ViewHeader)) throw damaged();
  ViewHeader view{};
  std::memcpy(&view, bytes.data(), sizeof view);
  const std::size_t numbers = std::size_t{view.dims} * (view.contiguous != 0 ? 1 : 2);
  if (view.dims > kMaxDims || bytes.size() != sizeof view + numbers * sizeof(std::int64_t)) {
    throw damaged();
  }
  std::array<std::int64_t, 2 * kMaxDims> values;
  std::memcpy(values.data(), bytes.data() + sizeof view, numbers * sizeof(std::int64_t));
  const std::span all(values.data(), numbers);
  const Dtype type = dtype != nullptr ? to_dtype(py::reinterpret_borrow<py::object>(dtype))
                                      : dtype_of_code(view.dtype);
  return new_tensor(storage, type, all.first(view.dims), all.subspan(view.dims), view.offset,
                    view.read_only != 0);
}

}  // namespace shmtensor::python
