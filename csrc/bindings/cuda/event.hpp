// Events from Python. A block of host memory describes an event and keeps it: its maker watches the
// block, and destroys the event when no process holds the block any more.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_event(py::module_& module);

}  // namespace shmtensor::python
