#include "bindings/tensor/shared_memory.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "bindings/storage/allocation.hpp"
#include "bindings/storage/lookup.hpp"
#include "bindings/support/errors.hpp"
#include "bindings/support/gil.hpp"
#include "bindings/tensor/tensor.hpp"

namespace shmtensor::python {
namespace {

/// The first field of NumPy's array object, which is a part of its binary interface.
struct ArrayHead {
  PyObject_HEAD const std::byte* data;
};

// The storage over that memory, unless it is the copy of a message's buffer, in which a receiver
// may write what it means to be its own. A read-only mapping of such a copy has no writer.
py::object aliased(const void* address, std::uint64_t size) {
  py::object storage = storage_at(address, size);
  if (storage && as_storage(storage)->is_copy.load() && !as_storage(storage)->read_only())
    return {};
  return storage;
}

// A tensor with the elements of an array; None unless they are in shared memory.
PyObject* tensor_over_array(PyObject*, PyObject* array) {
  return guarded([&] {
    if (std::string_view(Py_TYPE(array)->tp_name) != "numpy.ndarray") {
      throw py::type_error("not an array of NumPy");
    }
    const std::byte* const data = reinterpret_cast<const ArrayHead*>(array)->data;
    const py::object storage = aliased(data, 1);
    if (!storage) return Py_NewRef(Py_None);
    const py::handle view(array);
    const Dims shape = to_dims(view.attr("shape").ptr(), "shape");
    const Dims strides = to_dims(view.attr("strides").ptr(), "strides");
    if (element_count(shape) == 0) return Py_NewRef(Py_None);
    try {
      return new_tensor(storage, to_dtype(view.attr("dtype")), shape, strides,
                        data - as_storage(storage)->backing().data,
                        !view.attr("flags").attr("writeable").cast<bool>())
          .release()
          .ptr();
    } catch (const py::builtin_exception&) {
      return Py_NewRef(Py_None);  // its strides lead out of the storage, or its dtype has objects
    }
  });
}

class Buffer {
 public:
  explicit Buffer(PyObject* object) {
    if (PyObject_GetBuffer(object, &buffer_, PyBUF_SIMPLE) != 0) throw py::error_already_set();
  }
  ~Buffer() { PyBuffer_Release(&buffer_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] const void* data() const noexcept { return buffer_.buf; }
  [[nodiscard]] std::uint64_t size() const noexcept {
    return static_cast<std::uint64_t>(buffer_.len);
  }
  [[nodiscard]] bool read_only() const noexcept { return buffer_.readonly != 0; }

 private:
  Py_buffer buffer_{};
};

// A tensor of the bytes of a buffer; None unless they are in shared memory.
PyObject* tensor_over_buffer(PyObject*, PyObject* object) {
  return guarded([&] {
    const Buffer buffer(object);
    const py::object storage = aliased(buffer.data(), buffer.size());
    if (!storage) return Py_NewRef(Py_None);
    const std::array shape = {static_cast<std::int64_t>(buffer.size())};
    const auto* const data = static_cast<const std::byte*>(buffer.data());
    return new_tensor(storage, to_dtype(py::str("uint8")), shape, {},
                      data - as_storage(storage)->backing().data, buffer.read_only())
        .release()
        .ptr();
  });
}

// A copy of the bytes of a buffer, marked as one.
PyObject* copy_of_buffer(PyObject*, PyObject* object) {
  return guarded([&] {
    const Buffer buffer(object);
    py::object storage = new_shared_storage(buffer.size(), default_strategy(), false);
    std::byte* const to = as_storage(storage)->first.data;
    without_gil_if(buffer.size() >= kLong, [&] { std::memcpy(to, buffer.data(), buffer.size()); });
    as_storage(storage)->is_copy.store(true);
    return storage.release().ptr();
  });
}

PyObject* mark_copy(PyObject*, PyObject* object) {
  return guarded([&] {
    if (!is_storage(object)) throw py::type_error("not a storage");
    reinterpret_cast<Storage*>(object)->is_copy.store(true);
    return Py_NewRef(Py_None);
  });
}

PyMethodDef g_shared_functions[] = {
    {"tensor_over_array", tensor_over_array, METH_O, nullptr},
    {"tensor_over_buffer", tensor_over_buffer, METH_O, nullptr},
    {"copy_of_buffer", copy_of_buffer, METH_O, nullptr},
    {"mark_copy", mark_copy, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void add_shared_memory(py::module_& module) {
  if (PyModule_AddFunctions(module.ptr(), g_shared_functions) != 0) throw py::error_already_set();
}

}  // namespace shmtensor::python
