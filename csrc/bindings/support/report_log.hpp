// Passes reports on to Python's logging.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

void add_report_log(py::module_& module);

}  // namespace shmtensor::python
