#include "bindings/tensor/release.hpp"

#include "bindings/support/errors.hpp"

namespace shmtensor::python {
namespace {

// For a critical section while a reference is made from the tensor's own, or that is taken away.
py::handle handle_of(const Tensor& tensor) noexcept {
  return reinterpret_cast<PyObject*>(const_cast<Tensor*>(&tensor));
}

py::value_error released_error() { return py::value_error("the tensor was released"); }

}  // namespace

py::object storage_of(const Tensor& tensor) {
  const py::scoped_critical_section section(handle_of(tensor));
  PyObject* const storage = tensor.storage.load(std::memory_order_relaxed);
  if (storage == nullptr) throw released_error();
  return py::reinterpret_borrow<py::object>(storage);
}

Tensor& unreleased(PyObject* tensor) {
  auto& checked = *reinterpret_cast<Tensor*>(tensor);
  if (is_released(checked)) throw released_error();
  return checked;
}

void keep_until_end(Tensor& tensor) {
  const py::scoped_critical_section section(handle_of(tensor));
  PyObject* const storage = tensor.storage.load(std::memory_order_relaxed);
  if (storage == nullptr) throw released_error();
  if (tensor.kept == nullptr) tensor.kept = Py_NewRef(storage);
}

PyObject* release(PyObject* self, PyObject*) {
  return guarded([&] {
    auto& tensor = *reinterpret_cast<Tensor*>(self);
    PyObject* storage = nullptr;
    {
      const py::scoped_critical_section section(handle_of(tensor));
      storage = tensor.storage.exchange(nullptr, std::memory_order_relaxed);
    }
    Py_XDECREF(storage);  // without the section: it may run a program's code
  });
}

PyObject* enter(PyObject* self, PyObject*) {
  return guarded([&] {
    static_cast<void>(unreleased(self));
    return Py_NewRef(self);
  });
}

PyObject* keep_memory(PyObject* self, PyObject*) {
  return guarded([&] { keep_until_end(*reinterpret_cast<Tensor*>(self)); });
}

PyObject* get_released(PyObject* self, void*) {
  return PyBool_FromLong(is_released(*reinterpret_cast<Tensor*>(self)));
}

}  // namespace shmtensor::python
