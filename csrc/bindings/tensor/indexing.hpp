// Indexing by integers, slices, `...` and None, which gives views; NumPy serves all other indices.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

// The slots of the type.
PyObject* get_item(PyObject* self, PyObject* key) noexcept;
int set_item(PyObject* self, PyObject* key, PyObject* value) noexcept;
PyObject* get_element(PyObject* self, Py_ssize_t index) noexcept;
PyObject* iterate(PyObject* self) noexcept;

}  // namespace shmtensor::python
