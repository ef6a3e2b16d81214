// The arguments `block` and `timeout` of a call that may wait.
#pragma once

#include "bindings/support/python.hpp"
// Python's headers come before all others.
#include <cmath>
#include <limits>

#include "bindings/channel/waiting.hpp"

namespace shmtensor::python {

/// A Python object's timeout in seconds; None, or no object: no limit. A negative one is an error,
/// as for queue.Queue, unless the class of `self` has the attribute `_permits_negative_timeouts`.
[[nodiscard]] inline double to_timeout(PyObject* self, PyObject* object) {
  if (object == nullptr || object == Py_None) return std::numeric_limits<double>::infinity();
  const double seconds = PyFloat_AsDouble(object);
  if (seconds == -1.0 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  if (std::isnan(seconds)) throw py::value_error("timeout is not a number");
  if (seconds >= 0) return seconds;
  if (PyObject_HasAttrString(self, "_permits_negative_timeouts") != 0) return 0;
  throw py::value_error("'timeout' must be a non-negative number");
}

[[nodiscard]] inline Patience to_patience(PyObject* self, PyObject* block, PyObject* timeout) {
  const int blocks = block == nullptr ? 1 : PyObject_IsTrue(block);
  if (blocks < 0) throw py::error_already_set();
  return {blocks != 0, blocks != 0 ? to_timeout(self, timeout) : 0};
}

}  // namespace shmtensor::python
