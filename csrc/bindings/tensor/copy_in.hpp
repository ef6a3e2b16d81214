// The fast path of `asarray`: copies an array of NumPy's into a new block, without NumPy's help.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_copy_in(py::module_& module);

}  // namespace shmtensor::python
