// Elements copied into and out of tensors on a GPU.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_device_copies(py::module_& module);

}  // namespace shmtensor::python
