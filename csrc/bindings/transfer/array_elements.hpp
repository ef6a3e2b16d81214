// The elements of private arrays in a pickle.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

/// Return true for NumPy's class of arrays and its subclasses.
[[nodiscard]] bool is_array_class(PyObject* object);

/// Return true for an array of NumPy's own class, false for a subclass.
[[nodiscard]] bool is_exact_array(const py::array& array);

/// Return true unless its class adds something to the pickle of an array, such as a mask.
[[nodiscard]] bool pickles_as_array(const py::array& array);

/// The reduction of an array by its elements: a bytes object or, if they shall be `apart`, a buffer
/// that the pickler may place outside of the pickle. Arrays of Python objects, and of dtypes
/// without a size, NumPy reduces itself.
[[nodiscard]] py::object reduce_elements(const py::array& array, bool apart);

/// `array.__reduce__()`
[[nodiscard]] py::object reduce_by_itself(const py::array& array);

void add_array_elements(py::module_& module);

}  // namespace shmtensor::python
