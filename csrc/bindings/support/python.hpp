// The only file that includes pybind11; it precedes all other headers, as Python's headers require.
#pragma once

#include <pybind11/pybind11.h>

namespace shmtensor::python {

namespace py = pybind11;

/// A function as PyType_Slot takes it.
template <typename Function>
void* slot(Function* function) noexcept {
  return reinterpret_cast<void*>(function);
}

/// Takes over a new reference. If it is null, throws the Python error that is set.
inline py::object checked(PyObject* object) {
  if (object == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(object);
}

}  // namespace shmtensor::python
