// The home session from Python: its id, its limit, its statistics.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_session_functions(py::module_& module);

}  // namespace shmtensor::python
