// C++ exceptions as Python exceptions.
#pragma once

#include "bindings/support/python.hpp"
// Python's headers come before all others.
#include <exception>
#include <type_traits>
#include <utility>

#include "bindings/support/gil.hpp"

namespace shmtensor::python {

/// Sets the Python exception for the C++ exception that is being handled. No other function maps
/// the one family to the other. `shmtensor.errors` has the classes.
void translate_exception() noexcept;

/// Runs `body` and returns its result as a new reference, None if it has none; a PyObject* is one
/// already. Turns an exception into a Python exception and returns null then.
/// std::current_exception returns null for the unwinding by pthread_exit, which is not a C++
/// exception.
template <typename Body>
PyObject* guarded(Body&& body) noexcept {
  using Result = std::invoke_result_t<Body>;
  try {
    if constexpr (std::is_void_v<Result>) {
      std::forward<Body>(body)();
      return Py_NewRef(Py_None);
    } else if constexpr (std::is_same_v<Result, PyObject*>) {
      return std::forward<Body>(body)();
    } else if constexpr (std::is_base_of_v<py::object, Result>) {
      return std::forward<Body>(body)().release().ptr();
    } else {
      return py::cast(std::forward<Body>(body)()).release().ptr();
    }
  } catch (...) {
    if (std::current_exception() == nullptr) stay_until_exit();
    translate_exception();
    return nullptr;
  }
}

/// The same for a function that returns 0, or -1 with an exception.
template <typename Body>
int guarded_status(Body&& body) noexcept {
  PyObject* const done = guarded([&] {
    std::forward<Body>(body)();
    return Py_None;
  });
  return done == nullptr ? -1 : 0;
}

void add_errors(py::module_& module);

}  // namespace shmtensor::python
