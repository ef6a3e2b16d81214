// Reducers of NumPy's arrays, which a pickler calls for every array that it meets.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_array_reducers(py::module_& module);

}  // namespace shmtensor::python
