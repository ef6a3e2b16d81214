// Arrays and buffers over shared memory, and copies of others, for messages.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_shared_memory(py::module_& module);

}  // namespace shmtensor::python
