// The keys of a SharedDict, searched in shared memory.
#pragma once

#include <optional>

#include "bindings/support/python.hpp"
#include "containers/key_table.hpp"

namespace shmtensor::python {

/// A key, which refers to the object. Empty for an object that cannot be one.
[[nodiscard]] std::optional<Key> to_key(const py::object& object);

void add_key_index(py::module_& module);

}  // namespace shmtensor::python
