// Event and Condition.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_conditions(py::module_& module);

}  // namespace shmtensor::python
