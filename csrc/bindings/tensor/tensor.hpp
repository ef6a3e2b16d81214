// Tensor: dtype, shape and strides over a storage. A Python type of its own, small and quick to
// make.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "bindings/storage/storage.hpp"
#include "bindings/support/python.hpp"
#include "bindings/tensor/dtype.hpp"
#include "bindings/tensor/shape.hpp"

namespace shmtensor::python {

/// The Python object; `shmtensor.Tensor` derives from it and adds no fields. Immutable, but
/// for its release: `storage_of` gives its storage.
struct Tensor {
  static constexpr int kInline = 3;

  PyObject_HEAD PyObject* weak_references;
  std::atomic<PyObject*> storage;  ///< null after the release
  PyObject* kept;                  ///< the storage, if that stays until the tensor is destroyed
  PyObject* dtype;
  std::int64_t offset;  ///< of the first element, in bytes
  std::int32_t item_size;
  std::uint8_t dims;
  std::uint8_t dtype_code;
  bool read_only;
  bool contiguous;       ///< in C order
  std::int64_t* values;  ///< dims sizes, then dims strides in bytes; inline_values if few
  std::int64_t inline_values[2 * kInline];
  std::atomic<std::int64_t*> element_strides;  ///< null until `element_strides_of` needs them

  [[nodiscard]] std::span<const std::int64_t> shape() const noexcept { return {values, dims}; }
  [[nodiscard]] std::span<const std::int64_t> strides() const noexcept {
    return {values + dims, dims};
  }
};

/// A tensor over the storage. Empty strides mean C order. Throws ValueError if an element would be
/// outside of the storage.
[[nodiscard]] py::object new_tensor(const py::object& storage, const Dtype& dtype,
                                    std::span<const std::int64_t> shape,
                                    std::span<const std::int64_t> strides, std::int64_t offset,
                                    bool read_only);

/// A view of a tensor, with its dtype, `offset` bytes after its first element. The caller has
/// computed it from the tensor's: nothing is checked but that this was not released.
[[nodiscard]] py::object new_view(const Tensor& base, std::span<const std::int64_t> shape,
                                  std::span<const std::int64_t> strides, std::int64_t offset);

/// NumPy's array over the same memory. Throws TypeError if that is on a device, ValueError if the
/// tensor was released.
[[nodiscard]] py::object to_numpy(const Tensor& tensor);

[[nodiscard]] bool is_numpy_integer(PyObject* object) noexcept;

[[nodiscard]] bool is_tensor(PyObject* object) noexcept;
/// The object as a tensor. Throws TypeError.
[[nodiscard]] Tensor& to_tensor(PyObject* object);
/// Return true for the class of tensors and its base.
[[nodiscard]] bool is_tensor_class(PyObject* kind) noexcept;

void add_tensor(py::module_& module);

}  // namespace shmtensor::python
