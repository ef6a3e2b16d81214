// Reducers of NumPy's arrays, which a pickler calls for every array that it meets.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

/// Return true for NumPy's class of arrays and its subclasses.
[[nodiscard]] bool is_array_class(PyObject* object);

void add_array_reducers(py::module_& module);

}  // namespace shmtensor::python
