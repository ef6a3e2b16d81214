// The functions that multiprocessing's pickler calls for a tensor, and its unpickler for a handle.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

/// A function of the module, which pickles name as a member of the public module: its import also
/// registers the reducers, so a process that receives a tensor can send it on.
[[nodiscard]] PyObject* named_by_pickles(py::module_& module, const char* function);

void add_reducers(py::module_& module);

}  // namespace shmtensor::python
