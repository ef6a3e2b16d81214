// DLPack's table of C functions, by which other extensions exchange tensors without calling
// methods. A borrowed description has no flag for read-only memory, so it is refused for read-only
// tensors.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

/// Adds the table, as `dlpack_exchange_api`.
void add_dlpack_exchange(py::module_& module);

}  // namespace shmtensor::python
