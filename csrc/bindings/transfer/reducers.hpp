// The functions that multiprocessing's pickler calls for a tensor, and its unpickler for a handle.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_reducers(py::module_& module);

}  // namespace shmtensor::python
