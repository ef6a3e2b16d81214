// Storages in memory of a GPU: new ones, and those of received blocks.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_device_storage(py::module_& module);

}  // namespace shmtensor::python
