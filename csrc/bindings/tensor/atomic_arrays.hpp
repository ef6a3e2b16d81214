// Atomic operations at arrays of indices.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_atomic_arrays(py::module_& module);

}  // namespace shmtensor::python
