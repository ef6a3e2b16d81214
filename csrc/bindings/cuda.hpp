// Device memory from Python: copies, streams, events, DLPack.
#pragma once

#include "bindings/python.hpp"

namespace shmtensor::python {

void add_cuda(py::module_& module);
void add_cuda_copies(py::module_& module);
void add_cuda_event(py::module_& module);
void add_dlpack(py::module_& module);
void add_dlpack_import(py::module_& module);

}  // namespace shmtensor::python
