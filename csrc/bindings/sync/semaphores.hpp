// Semaphore and BoundedSemaphore.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_semaphores(py::module_& module);

}  // namespace shmtensor::python
