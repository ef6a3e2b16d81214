// The items of a shared container: a sequence that makes each item on access, from shared memory.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_item_sequence(py::module_& module);

}  // namespace shmtensor::python
