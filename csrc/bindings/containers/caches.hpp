// Caches: items that whichever process comes first adds for all.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_caches(py::module_& module);

}  // namespace shmtensor::python
