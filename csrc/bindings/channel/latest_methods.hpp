// The type of the newest value that processes set.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_latest(py::module_& module);

}  // namespace shmtensor::python
