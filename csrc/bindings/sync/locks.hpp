// Lock and RLock.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_locks(py::module_& module);

}  // namespace shmtensor::python
