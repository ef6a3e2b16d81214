// Arrays and buffers over shared memory, and copies of others, for messages.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

/// The object as an array of NumPy. Throws TypeError.
[[nodiscard]] py::array to_array(PyObject* object);

/// A tensor with the elements of an array; null unless they are in shared memory.
[[nodiscard]] py::object tensor_over_array(const py::array& array);

void add_shared_memory(py::module_& module);

}  // namespace shmtensor::python
