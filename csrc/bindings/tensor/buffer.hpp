// The buffer protocol of tensors, the same as that of NumPy's arrays.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

// The slots of the type.
int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept;
void release_buffer(PyObject* self, Py_buffer* view) noexcept;

}  // namespace shmtensor::python
