// Device memory exported through DLPack; on the host NumPy does it.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_dlpack_export(py::module_& module);

}  // namespace shmtensor::python
