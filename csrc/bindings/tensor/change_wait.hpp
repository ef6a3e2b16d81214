// Waits until an element changes, whoever writes it, and however.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_change_wait(py::module_& module);

}  // namespace shmtensor::python
