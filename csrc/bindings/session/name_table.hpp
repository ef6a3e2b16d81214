// The named objects of a session; docs/design/manager.md, "Names".
#pragma once

#include "arena/session_memory.hpp"
#include "bindings/support/python.hpp"

namespace shmtensor::python {

/// One dict for each name that is in use.
[[nodiscard]] py::list names_of(const SessionMemory& memory);

[[nodiscard]] py::bytes bytes_of(const NameHandle& handle);

void add_name_table(py::module_& module);

}  // namespace shmtensor::python
