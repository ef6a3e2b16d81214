// The storage of another library over the bytes of one of ours.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

/// Adds `peer_of`, `set_peer` and `register_peers`. The other library's storage refers to ours,
/// which therefore has a weak pointer to it, as that library makes them: numbers, which it resolves
/// and frees. So one block is one storage of that library in a process.
void add_peer(py::module_& module);

}  // namespace shmtensor::python
