// The functions of shmtensor.atomic: an operation on one element of a tensor without NumPy's help,
// and on those at arrays of indices; waiting until an element changes.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_atomic(py::module_& module);

}  // namespace shmtensor::python
