// The one way into Python's and pybind11's headers. Must be the first include of a file here.
#pragma once

#include <pybind11/pybind11.h>
// Python's headers come before all others.
#include <cxxabi.h>
#include <unistd.h>

#include <utility>

namespace shmtensor::python {

namespace py = pybind11;

/// Sets the Python exception for the C++ exception that is being handled: the one place where the
/// two families meet. `shmtensor.errors` has the classes.
void translate_exception() noexcept;

/// For a thread that Python wants to be rid of, because the interpreter has ended (see gil.hpp).
[[noreturn]] inline void stay_until_exit() noexcept {
  for (;;) pause();
}

/// Runs `body` and turns what it throws into a Python exception and null.
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

/// A strong reference if the object is not being destroyed, else null. For objects that are found
/// through a pointer which owns no reference.
bool try_incref(PyObject* object) noexcept;

/// To be called once for an object that others may find so.
void enable_try_incref(PyObject* object) noexcept;

/// A new object of a Python class over one of our types, out of the garbage collector's sight.
/// Python makes every class a collected one; but ours have no fields that the collector could
/// follow, so that it would walk over each object at each turn and learn nothing.
[[nodiscard]] py::object new_untracked(PyTypeObject* type);

/// A function as PyType_Slot takes it.
template <typename Function>
void* slot(Function* function) noexcept {
  return reinterpret_cast<void*>(function);
}

/// Owned, never null: throws the Python error that is set.
inline py::object checked(PyObject* object) {
  if (object == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(object);
}

}  // namespace shmtensor::python
