// Python's access to the layer `os`: probes of the system and the parent-death signal.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_os_functions(py::module_& module);

}  // namespace shmtensor::python
