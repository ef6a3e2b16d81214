// Sessions as others see them, and the table of names.
#pragma once

#include "bindings/python.hpp"

namespace shmtensor::python {

void add_names(py::module_& module);

}  // namespace shmtensor::python
