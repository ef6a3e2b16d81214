// Device memory of another library, imported through DLPack.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_dlpack_import(py::module_& module);

}  // namespace shmtensor::python
