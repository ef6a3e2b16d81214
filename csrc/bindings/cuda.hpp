// Device memory from Python: copies, streams, DLPack.
#pragma once

#include "bindings/python.hpp"

namespace shmtensor::python {

void add_cuda(py::module_& module);
void add_dlpack(py::module_& module);

}  // namespace shmtensor::python
