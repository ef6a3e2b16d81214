// Sessions as a process outside of them sees them.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_observer(py::module_& module);

}  // namespace shmtensor::python
