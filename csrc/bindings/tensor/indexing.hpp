// Indexing by integers, slices, `...` and None, which gives views; NumPy serves all other indices.
#pragma once

#include <cstdint>
#include <optional>

#include "bindings/support/python.hpp"

namespace shmtensor::python {

/// An integer of Python or NumPy, but not a bool, which is a mask; nothing for any other object,
/// and for integers of more than 64 bits.
std::optional<std::int64_t> to_integer(PyObject* part) noexcept;

// The slots of the type.
PyObject* get_item(PyObject* self, PyObject* key) noexcept;
int set_item(PyObject* self, PyObject* key, PyObject* value) noexcept;
PyObject* get_element(PyObject* self, Py_ssize_t index) noexcept;
PyObject* iterate(PyObject* self) noexcept;

}  // namespace shmtensor::python
