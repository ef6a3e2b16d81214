// Python objects: made untracked, and referenced through pointers that own no reference.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

/// Return true, and adds a reference, unless the object is being destroyed.
bool try_incref(PyObject* object) noexcept;

/// Makes `try_incref` valid for the object. To be called once, before another thread can reach it.
void enable_try_incref(PyObject* object) noexcept;

/// A new object of a Python class that derives from one of our types, not tracked by the garbage
/// collector. Python makes each such class a collected one, but our types have no fields that the
/// collector could follow: it would visit each object without effect.
[[nodiscard]] py::object new_untracked(PyTypeObject* type);

/// The end of `tp_dealloc` of such a type: frees the memory of the object.
void free_object(PyObject* object) noexcept;

/// Makes a type with the name "shmtensor._core.Name", which must stay, and adds it to the module.
/// The type stays until the process ends.
PyTypeObject* add_type(py::module_& module, const char* name, std::size_t size, unsigned flags,
                       PyType_Slot* slots);

}  // namespace shmtensor::python
