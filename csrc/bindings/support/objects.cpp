#include "bindings/support/objects.hpp"

#include <cstring>

#if defined(Py_GIL_DISABLED) && PY_VERSION_HEX < 0x030E0000
#include <atomic>
#endif

namespace shmtensor::python {

py::object new_untracked(PyTypeObject* type) {
  py::object object = checked(type->tp_alloc(type, 0));
  if (PyObject_GC_IsTracked(object.ptr()) != 0) PyObject_GC_UnTrack(object.ptr());
  return object;
}

void free_object(PyObject* object) noexcept {
  PyTypeObject* const type = Py_TYPE(object);
  type->tp_free(object);
  Py_DECREF(type);
}

PyTypeObject* add_type(py::module_& module, const char* name, std::size_t size, unsigned flags,
                       PyType_Slot* slots) {
  PyType_Spec spec = {name, static_cast<int>(size), 0, flags, slots};
  py::object type = checked(PyType_FromSpec(&spec));
  module.add_object(std::strrchr(name, '.') + 1, type);
  return reinterpret_cast<PyTypeObject*>(type.release().ptr());
}

#if !defined(Py_GIL_DISABLED)

// With a GIL, an object that is being destroyed has a count of zero, and no other thread runs.
bool try_incref(PyObject* object) noexcept {
  if (Py_REFCNT(object) <= 0) return false;
  Py_INCREF(object);
  return true;
}

void enable_try_incref(PyObject*) noexcept {}

#elif PY_VERSION_HEX >= 0x030E0000

bool try_incref(PyObject* object) noexcept { return PyUnstable_TryIncRef(object) != 0; }

void enable_try_incref(PyObject* object) noexcept { PyUnstable_EnableTryIncRef(object); }

#else

// CPython 3.13 does not export the two functions above. Here they follow its rules for biased
// counts (PEP 703): the owning thread may use its own count while that is not zero; every other
// thread adds to the shared one. The state of the shared count must be "maybe weakref" (1) or more,
// which means that a thread may examine the object without owning a reference: its destruction then
// goes through that count.
namespace {

std::atomic_ref<Py_ssize_t> shared_count(PyObject* object) noexcept {
  return std::atomic_ref(object->ob_ref_shared);
}

}  // namespace

bool try_incref(PyObject* object) noexcept {
  const std::uint32_t local = std::atomic_ref(object->ob_ref_local).load(std::memory_order_relaxed);
  if (local == _Py_IMMORTAL_REFCNT_LOCAL) return true;
  if (std::atomic_ref(object->ob_tid).load(std::memory_order_relaxed) == _Py_ThreadId()) {
    if (local == 0) return false;
    Py_INCREF(object);
    return true;
  }
  Py_ssize_t shared = shared_count(object).load(std::memory_order_relaxed);
  while (true) {
    // Zero without the state "maybe weakref", or merged and destroyed.
    if (shared == 0 || shared == _Py_REF_MERGED) return false;
    if (shared_count(object).compare_exchange_weak(
            shared, shared + (Py_ssize_t{1} << _Py_REF_SHARED_SHIFT))) {
      return true;
    }
  }
}

void enable_try_incref(PyObject* object) noexcept {
  Py_ssize_t shared = shared_count(object).load(std::memory_order_relaxed);
  while ((shared & _Py_REF_SHARED_FLAG_MASK) == 0 &&
         !shared_count(object).compare_exchange_weak(shared, shared | _Py_REF_MAYBE_WEAKREF)) {
  }
}

#endif

}  // namespace shmtensor::python
