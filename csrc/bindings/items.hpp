// What shared containers are made of: items made out of shared memory on access, their keys, and
// the loop that writes them.
#pragma once

#include "bindings/python.hpp"

namespace shmtensor::python {

void add_items(py::module_& module);
void add_keys(py::module_& module);
void add_pack(py::module_& module);

}  // namespace shmtensor::python
