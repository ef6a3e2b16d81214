// Barrier.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_barriers(py::module_& module);

}  // namespace shmtensor::python
