#include "bindings/tensor/shared_memory.hpp"

#include <array>
#include <span>
#include <utility>

#include "bindings/storage/allocation.hpp"
#include "bindings/storage/lookup.hpp"
#include "bindings/support/errors.hpp"
#include "bindings/support/simple_buffer.hpp"
#include "bindings/tensor/tensor.hpp"

namespace shmtensor::python {
namespace {

thread_local std::uint64_t t_copied = 0;

// The storage over that memory, unless it is the copy of a message's buffer, in which a receiver
// may write what it means to be its own. A read-only mapping of such a copy has no writer.
py::object aliased(const void* address, std::uint64_t size) {
  py::object storage = storage_at(address, size);
  if (storage && as_storage(storage)->is_copy.load() && !as_storage(storage)->read_only())
    return {};
  return storage;
}

// A tensor of the bytes of a buffer; None unless they are in shared memory.
PyObject* tensor_over_buffer(PyObject*, PyObject* object) {
  return guarded([&]() -> py::object {
    const SimpleBuffer buffer(object);
    const std::span<const std::byte> bytes = buffer.bytes();
    const py::object storage = aliased(bytes.data(), bytes.size());
    if (!storage) return py::none();
    const std::array shape = {static_cast<std::int64_t>(bytes.size())};
    return new_tensor(storage, to_dtype(py::str("uint8")), shape, {},
                      bytes.data() - as_storage(storage)->backing().data, buffer.read_only());
  });
}

// A tensor in a new block with the elements of an array of NumPy's, made without NumPy's help. None
// unless the array is in C order and its dtype has a code: then the elements are plain bytes.
PyObject* copy_in(PyObject*, PyObject* object) {
  return guarded([&]() -> py::object {
    const py::array array = to_array(object);
    const Dtype type = to_dtype(array.dtype());
    if (type.code == kNoCode || (array.flags() & py::array::c_style) == 0) return py::none();
    const std::span bytes(static_cast<const std::byte*>(array.data()),
                          static_cast<std::size_t>(array.nbytes()));
    const std::span shape(array.shape(), static_cast<std::size_t>(array.ndim()));
    return new_tensor(share_copy(bytes), type, shape, {}, 0, false);
  });
}

// A copy of the bytes of a buffer, marked as one.
PyObject* copy_of_buffer(PyObject*, PyObject* object) {
  return guarded([&] {
    const SimpleBuffer buffer(object);
    py::object copy = share_copy(buffer.bytes());
    as_storage(copy)->is_copy.store(true);
    t_copied += buffer.bytes().size();
    return copy;
  });
}

PyObject* mark_copy(PyObject*, PyObject* object) {
  return guarded([&] { to_storage(object).is_copy.store(true); });
}

PyMethodDef g_shared_functions[] = {
    {"tensor_over_buffer", tensor_over_buffer, METH_O, nullptr},
    {"copy_in", copy_in, METH_O, nullptr},
    {"copy_of_buffer", copy_of_buffer, METH_O, nullptr},
    {"mark_copy", mark_copy, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

py::array to_array(PyObject* object) {
  if (!py::array::check_(object)) throw py::type_error("not an array of NumPy");
  return py::reinterpret_borrow<py::array>(object);
}

py::object tensor_over_array(const py::array& array) {
  const auto* const data = static_cast<const std::byte*>(array.data());
  const py::object storage = aliased(data, 1);
  if (!storage) return {};
  const Dims shape(array.shape(), array.shape() + array.ndim());
  const Dims strides(array.strides(), array.strides() + array.ndim());
  if (element_count(shape) == 0) return {};
  try {
    return new_tensor(storage, to_dtype(array.dtype()), shape, strides,
                      data - as_storage(storage)->backing().data, !array.writeable());
  } catch (const py::builtin_exception&) {
    return {};  // its strides lead out of the storage, or its dtype has objects
  }
}

std::uint64_t exchange_copied_bytes(std::uint64_t bytes) noexcept {
  return std::exchange(t_copied, bytes);
}

void add_shared_memory(py::module_& module) {
  if (PyModule_AddFunctions(module.ptr(), g_shared_functions) != 0) throw py::error_already_set();
}

}  // namespace shmtensor::python
