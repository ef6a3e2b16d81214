// The one way into Python's and pybind11's headers. Must be the first include of a file here.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "base/align.hpp"

namespace shmtensor::python {

namespace py = pybind11;

/// Sets the Python exception for the C++ exception that is being handled: the one place where the
/// two families meet. `shmtensor.errors` has the classes.
void translate_exception() noexcept;

/// Runs `body` and turns what it throws into a Python exception and null.
template <typename Body>
PyObject* guarded(Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
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

/// From this size on a copy or a fill is worth giving other threads the GIL meanwhile.
inline constexpr std::uint64_t kLong = 64 * kKiB;

template <typename Body>
void without_gil_if(bool longer, Body&& body) {
  std::optional<py::gil_scoped_release> release;
  if (longer) release.emplace();
  body();
}

/// Owned, never null: throws the Python error that is set.
inline py::object checked(PyObject* object) {
  if (object == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(object);
}

}  // namespace shmtensor::python
