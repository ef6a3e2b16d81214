// GPUs from Python: devices, streams, facts about pointers.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_device_functions(py::module_& module);

}  // namespace shmtensor::python
