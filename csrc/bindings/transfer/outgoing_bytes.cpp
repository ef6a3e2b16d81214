#include "bindings/transfer/outgoing_bytes.hpp"

#include <structmember.h>

#include "bindings/storage/allocation.hpp"
#include "bindings/support/errors.hpp"
#include "bindings/support/objects.hpp"
#include "bindings/transfer/send_receive.hpp"

namespace shmtensor::python {
namespace {

/// Not tracked by the garbage collector: a storage of bytes refers to no other object.
struct OutgoingBytes {
  PyObject_HEAD PyObject* weak_references;
  PyObject* owner;  ///< of the memory
  PyObject* table;  ///< of the thread that made the object
  PyObject* key;
  const std::byte* data;
  Py_ssize_t size;
};

PyTypeObject* g_outgoing_type = nullptr;
PyObject* g_table_name = nullptr;
PyObject* g_rebuild_sent = nullptr;

// From the key of a storage to a weak reference, whose object is in a message that this thread
// pickles.
py::object table_of_thread() {
  PyObject* const all = PyThreadState_GetDict();
  if (all == nullptr) throw py::error_already_set();
  if (PyObject* found = PyDict_GetItemWithError(all, g_table_name)) {
    return py::reinterpret_borrow<py::object>(found);
  }
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  py::object made = checked(PyDict_New());
  if (PyDict_SetItem(all, g_table_name, made.ptr()) != 0) throw py::error_already_set();
  return made;
}

py::object referent(PyObject* weak) {
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* found = nullptr;
  if (PyWeakref_GetRef(weak, &found) < 0) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(found);
#else
  PyObject* const found = PyWeakref_GetObject(weak);
  return found == Py_None ? py::object() : py::reinterpret_borrow<py::object>(found);
#endif
}

// The object of a key, or null. Only another thread that frees one changes the table meanwhile.
py::object find(const py::object& table, PyObject* key) {
  PyObject* const found = PyDict_GetItemWithError(table.ptr(), key);
  if (found == nullptr) {
    if (PyErr_Occurred() != nullptr) throw py::error_already_set();
    return {};
  }
  return referent(py::reinterpret_borrow<py::object>(found).ptr());
}

py::object make(const py::object& table, PyObject* key, PyObject* owner, PyObject* address,
                PyObject* size) {
  void* const data = PyLong_AsVoidPtr(address);
  const Py_ssize_t bytes = PyLong_AsSsize_t(size);
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  py::object object = checked(g_outgoing_type->tp_alloc(g_outgoing_type, 0));
  auto& made = *reinterpret_cast<OutgoingBytes*>(object.ptr());
  made.owner = Py_NewRef(owner);
  made.table = Py_NewRef(table.ptr());
  made.key = Py_NewRef(key);
  made.data = static_cast<const std::byte*>(data);
  made.size = bytes;
  const py::object weak = checked(PyWeakref_NewRef(object.ptr(), nullptr));
  if (PyDict_SetItem(table.ptr(), key, weak.ptr()) != 0) throw py::error_already_set();
  return object;
}

// outgoing_bytes(key) is the object that this thread has, or None; with owner, address and size, it
// is made if there is none.
PyObject* outgoing_bytes(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([&] {
    if (count != 1 && count != 4) {
      throw py::type_error("outgoing_bytes takes a key, and perhaps owner, address and size");
    }
    const py::object table = table_of_thread();
    py::object found = find(table, arguments[0]);
    if (!found && count == 4) {
      found = make(table, arguments[0], arguments[1], arguments[2], arguments[3]);
    }
    return found ? found : py::none();
  });
}

PyObject* reduce_outgoing_bytes(PyObject*, PyObject* object) {
  return guarded([&] {
    if (Py_TYPE(object) != g_outgoing_type) throw py::type_error("not OutgoingBytes");
    const auto& bytes = *reinterpret_cast<OutgoingBytes*>(object);
    const py::object copy = share_copy({bytes.data, static_cast<std::size_t>(bytes.size)});
    const py::object handle = send_storage(*as_storage(copy), Access::read_write, {});
    const py::object arguments = checked(PyTuple_Pack(1, handle.ptr()));
    return PyTuple_Pack(2, g_rebuild_sent, arguments.ptr());
  });
}

// Another object may have the key already, if the last reference to this one ends in another
// thread. An entry that remains after an error refers to nothing.
void forget(const OutgoingBytes& bytes) noexcept {
  const py::error_scope scope;
  const int status = guarded_status([&] {
    const auto table = py::reinterpret_borrow<py::object>(bytes.table);
    if (!find(table, bytes.key) && PyDict_DelItem(bytes.table, bytes.key) != 0) {
      throw py::error_already_set();
    }
  });
  if (status != 0) PyErr_Clear();
}

void outgoing_dealloc(PyObject* self) {
  auto& bytes = *reinterpret_cast<OutgoingBytes*>(self);
  if (bytes.weak_references != nullptr) PyObject_ClearWeakRefs(self);
  if (bytes.table != nullptr) forget(bytes);
  Py_XDECREF(bytes.owner);
  Py_XDECREF(bytes.table);
  Py_XDECREF(bytes.key);
  free_object(self);
}

PyMemberDef g_outgoing_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(OutgoingBytes, weak_references), READONLY, nullptr},
    {"nbytes", T_PYSSIZET, offsetof(OutgoingBytes, size), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyMethodDef g_outgoing_functions[] = {
    {"outgoing_bytes", method(outgoing_bytes), METH_FASTCALL, nullptr},
    {"reduce_outgoing_bytes", reduce_outgoing_bytes, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void add_outgoing_bytes(py::module_& module) {
  PyType_Slot slots[] = {
      {Py_tp_dealloc, slot(outgoing_dealloc)},
      {Py_tp_members, g_outgoing_members},
      {0, nullptr},
  };
  g_outgoing_type = add_type(module, "shmtensor._core.OutgoingBytes", sizeof(OutgoingBytes),
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots);
  g_table_name = checked(PyUnicode_InternFromString("shmtensor.outgoing_bytes")).release().ptr();
  g_rebuild_sent = py::object(module.attr("rebuild_storage")).release().ptr();
  if (PyModule_AddFunctions(module.ptr(), g_outgoing_functions) != 0) throw py::error_already_set();
}

}  // namespace shmtensor::python
