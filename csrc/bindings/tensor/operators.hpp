// Operators of tensors: those of NumPy's arrays, over the same memory.
#pragma once

#include <vector>

#include "bindings/support/python.hpp"

namespace shmtensor::python {

/// The slots of the type. An operator calls the slot of NumPy's array, with the arrays of both
/// operands. Through `__array_ufunc__`, as by NumPy's NDArrayOperatorsMixin, it takes several times
/// as long.
[[nodiscard]] std::vector<PyType_Slot> operator_slots();

/// Sets numpy.ndarray, whose slots compute.
void set_array_type(PyTypeObject* array) noexcept;

}  // namespace shmtensor::python
