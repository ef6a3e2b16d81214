#include "bindings/tensor/copy_in.hpp"

#include <span>

#include "bindings/storage/allocation.hpp"
#include "bindings/support/errors.hpp"
#include "bindings/tensor/tensor.hpp"

namespace shmtensor::python {
namespace {

class ArrayBuffer {
 public:
  /// Not valid if the memory is not in C order.
  explicit ArrayBuffer(PyObject* array)
      : valid_(PyObject_GetBuffer(array, &buffer_, PyBUF_ND) == 0) {
    if (!valid_) PyErr_Clear();
  }
  ~ArrayBuffer() {
    if (valid_) PyBuffer_Release(&buffer_);
  }
  ArrayBuffer(const ArrayBuffer&) = delete;
  ArrayBuffer& operator=(const ArrayBuffer&) = delete;

  [[nodiscard]] bool valid() const noexcept { return valid_; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {static_cast<const std::byte*>(buffer_.buf), static_cast<std::size_t>(buffer_.len)};
  }
  [[nodiscard]] std::span<const std::int64_t> shape() const noexcept {
    static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t));
    return {buffer_.shape, static_cast<std::size_t>(buffer_.ndim)};
  }

 private:
  Py_buffer buffer_{};
  bool valid_;
};

// None unless the array is in C order and its dtype has a code: then the elements are plain bytes.
PyObject* copy_in(PyObject*, PyObject* array) {
  return guarded([&] {
    const Dtype type = to_dtype(checked(PyObject_GetAttrString(array, "dtype")));
    if (type.code == kNoCode) return py::none().release().ptr();
    const ArrayBuffer view(array);
    if (!view.valid()) return py::none().release().ptr();
    return new_tensor(share_copy(view.bytes()), type, view.shape(), {}, 0, false).release().ptr();
  });
}

PyMethodDef g_copy_functions[] = {
    {"copy_in", copy_in, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void add_copy_in(py::module_& module) {
  if (PyModule_AddFunctions(module.ptr(), g_copy_functions) != 0) throw py::error_already_set();
}

}  // namespace shmtensor::python
