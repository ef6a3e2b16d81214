// Arguments of functions that Python calls without a tuple.
#pragma once

#include "bindings/support/python.hpp"
// Python's headers come before all others.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace shmtensor::python {

/// The arguments of a call, by position or by name; null for those that were not given. Throws
/// TypeError.
template <std::size_t kCount>
std::array<PyObject*, kCount> parse(const char* function, PyObject* const* given, Py_ssize_t count,
                                    PyObject* names, const std::array<const char*, kCount>& known,
                                    std::size_t required) {
  std::array<PyObject*, kCount> values{};
  const auto wrong = [&](const std::string& what) {
    return py::type_error(std::string(function) + "() " + what);
  };
  if (static_cast<std::size_t>(count) > kCount) throw wrong("takes fewer arguments");
  std::copy_n(given, count, values.begin());
  const Py_ssize_t named = names != nullptr ? PyTuple_GET_SIZE(names) : 0;
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyObject* name = PyTuple_GET_ITEM(names, i);
    std::size_t at = 0;
    while (at < kCount && PyUnicode_CompareWithASCIIString(name, known[at]) != 0) ++at;
    if (at == kCount) {
      throw wrong("got an unexpected keyword argument '" + std::string(py::str(name)) + "'");
    }
    if (values[at] != nullptr) {
      throw wrong("got multiple values for argument '" + std::string(known[at]) + "'");
    }
    values[at] = given[count + i];
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (values[i] == nullptr) {
      throw wrong("missing required argument: '" + std::string(known[i]) + "'");
    }
  }
  return values;
}

/// The truth value of an argument; `otherwise` if it was not given.
[[nodiscard]] inline bool to_bool(PyObject* object, bool otherwise) {
  if (object == nullptr) return otherwise;
  const int truth = PyObject_IsTrue(object);
  if (truth < 0) throw py::error_already_set();
  return truth != 0;
}

/// A number of seconds; None, or no argument: infinity. Throws ValueError for NaN.
[[nodiscard]] inline double to_seconds(PyObject* object) {
  if (object == nullptr || object == Py_None) return std::numeric_limits<double>::infinity();
  const double seconds = PyFloat_AsDouble(object);
  if (seconds == -1.0 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  if (std::isnan(seconds)) throw py::value_error("timeout is not a number");
  return seconds;
}

[[nodiscard]] inline std::uint64_t to_unsigned(PyObject* object) {
  const unsigned long long number = PyLong_AsUnsignedLongLong(object);
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  return number;
}

}  // namespace shmtensor::python
