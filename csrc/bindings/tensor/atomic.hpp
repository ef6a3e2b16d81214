// The functions of shmtensor.atomic, as they are called: an operation on one element of a tensor
// without NumPy's help.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_atomic(py::module_& module);

}  // namespace shmtensor::python
