#include "bindings/storage/peer.hpp"

#include <utility>

#include "bindings/storage/storage.hpp"
#include "bindings/support/errors.hpp"

namespace shmtensor::python {
namespace {

PyObject* g_resolve = nullptr;
PyObject* g_free = nullptr;

// A capsule that has the number frees it when its last user is done: another thread may replace it
// while it is resolved.
constexpr const char* kPeerName = "shmtensor.peer";

void free_number(PyObject* capsule) {
  const py::error_scope scope;
  auto* const number = static_cast<PyObject*>(PyCapsule_GetPointer(capsule, kPeerName));
  PyObject* const done = PyObject_CallOneArg(g_free, number);
  if (done == nullptr) PyErr_WriteUnraisable(g_free);
  Py_XDECREF(done);
  Py_DECREF(number);
}

// The other library's storage, or None if there is none or it has ended.
PyObject* peer_of(PyObject*, PyObject* object) {
  return guarded([&] {
    const Storage& storage = to_storage(object);
    py::object capsule;
    {
      const py::scoped_critical_section guard{py::handle(object)};
      capsule = py::reinterpret_borrow<py::object>(storage.peer);
    }
    if (!capsule) return Py_NewRef(Py_None);
    auto* const number = static_cast<PyObject*>(PyCapsule_GetPointer(capsule.ptr(), kPeerName));
    return PyObject_CallOneArg(g_resolve, number);
  });
}

PyObject* set_peer(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([&] {
    if (count != 2 || !is_storage(arguments[0])) {
      throw py::type_error("set_peer takes a storage and a weak pointer");
    }
    py::object capsule = checked(PyCapsule_New(arguments[1], kPeerName, free_number));
    Py_INCREF(arguments[1]);
    {
      const py::scoped_critical_section guard{py::handle(arguments[0])};
      PyObject*& peer = reinterpret_cast<Storage*>(arguments[0])->peer;
      PyObject* const before = std::exchange(peer, capsule.release().ptr());
      capsule = py::reinterpret_steal<py::object>(before);  // released after the critical section
    }
  });
}

PyMethodDef g_peer_functions[] = {
    {"peer_of", peer_of, METH_O, nullptr},
    {"set_peer", method(set_peer), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void add_peer(py::module_& module) {
  if (PyModule_AddFunctions(module.ptr(), g_peer_functions) != 0) throw py::error_already_set();
  module.def("register_peers", [](const py::object& resolve, const py::object& free) {
    g_resolve = py::object(resolve).release().ptr();
    g_free = py::object(free).release().ptr();
  });
}

}  // namespace shmtensor::python
