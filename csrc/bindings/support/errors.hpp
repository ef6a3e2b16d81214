// C++ exceptions as Python exceptions.
#pragma once

#include "bindings/support/python.hpp"
// Python's headers come before all others.
#include <cxxabi.h>

#include <utility>

#include "bindings/support/gil.hpp"

namespace shmtensor::python {

/// Sets the Python exception for the C++ exception that is being handled. No other function maps
/// the one family to the other. `shmtensor.errors` has the classes.
void translate_exception() noexcept;

/// Runs `body`; turns an exception into a Python exception and returns null then.
template <typename Body>
PyObject* guarded(Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (const abi::__forced_unwind&) {
    stay_until_exit();
  } catch (...) {
    translate_exception();
    return nullptr;
  }
}

void add_errors(py::module_& module);

}  // namespace shmtensor::python
