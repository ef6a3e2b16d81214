// Blocks as private memory: a process writes into its own copies of the pages.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_private_view(py::module_& module);

}  // namespace shmtensor::python
