// The keys of a SharedDict, searched in shared memory.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_key_index(py::module_& module);

}  // namespace shmtensor::python
