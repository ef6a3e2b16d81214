// Atomic operations on the 64-bit words of a storage in host memory.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_words(py::module_& module);

}  // namespace shmtensor::python
