// Where the bytes of a storage are, for people.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_place(py::module_& module);

}  // namespace shmtensor::python
