#include "bindings/tensor/copy_in.hpp"

#include <cstring>
#include <span>

#include "bindings/storage/allocation.hpp"
#include "bindings/support/errors.hpp"
#include "bindings/support/gil.hpp"
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
  [[nodiscard]] const void* data() const noexcept { return buffer_.buf; }
  [[nodiscard]] std::uint64_t size() const noexcept {
    return static_cast<std::uint64_t>(buffer_.len);
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
    const py::object storage = new_shared_storage(view.size(), default_strategy(), false);
    std::byte* to = as_storage(storage)->first.data;
    without_gil_if(view.size() >= kLong, [&] { std::memcpy(to, view.data(), view.size()); });
    return new_tensor(storage, type, view.shape(), {}, 0, false).release().ptr();
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
