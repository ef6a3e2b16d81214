// The loop that pickles the items of a new shared container.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_item_packer(py::module_& module);

}  // namespace shmtensor::python
