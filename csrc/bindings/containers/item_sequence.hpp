// The items of a shared container: a sequence that makes each item on access, from shared memory.
#pragma once

#include "bindings/support/python.hpp"
#include "containers/item_table.hpp"

namespace shmtensor::python {

/// The object of an item whose bytes are in a read-only memoryview, which its arrays keep alive.
/// Throws CorruptData.
[[nodiscard]] py::object load_item(PyObject* view, ItemForm form);

void add_item_sequence(py::module_& module);

}  // namespace shmtensor::python
