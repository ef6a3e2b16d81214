// Types of objects over a block that processes share: how they open it, live and end.
#pragma once

#include "bindings/support/python.hpp"
// Python's headers come before all others.
#include <structmember.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "bindings/channel/channel_type.hpp"
#include "bindings/storage/storage.hpp"
#include "bindings/support/errors.hpp"
#include "bindings/support/objects.hpp"
#include "session/runtime.hpp"

namespace shmtensor::python {

/// `source` is a storage that a function of this module made, here or in another process; for a
/// reader, its broadcast.
template <typename Open>
std::unique_ptr<Open> open_channel(PyObject* source) {
  const std::string name = Open::kName;
  if (source == nullptr || !is_storage(source)) {
    throw py::type_error("a " + name + " needs a storage");
  }
  const Backing& backing = reinterpret_cast<Storage*>(source)->backing();
  if (backing.kind != Backing::Kind::block || backing.device >= 0) {
    throw py::type_error("the storage of a " + name + " is shared memory of the host");
  }
  std::shared_ptr<Session> session = Runtime::get().find(backing.arena->memory().id());
  if (!session) throw SessionError("the session of the " + name + " has ended");
  return std::make_unique<Open>(std::move(session), Block{backing.arena, backing.block});
}

template <>
std::unique_ptr<OpenReader> open_channel(PyObject* source);

template <typename Open>
int init(PyObject* self, PyObject* arguments, PyObject*) {
  return guarded_status([&] {
    PyObject* const source =
        PyTuple_GET_SIZE(arguments) == 1 ? PyTuple_GET_ITEM(arguments, 0) : nullptr;
    std::unique_ptr<Open> open = open_channel<Open>(source);
    ChannelObject& object = channel_of(self);
    if (object.open != nullptr) {
      throw std::runtime_error(std::string("__init__ was called twice for a ") + Open::kName);
    }
    object.source = Py_NewRef(source);
    object.open = open.release();
  });
}

void channel_dealloc(PyObject* self);

inline constexpr PyMemberDef kWeakReferences{
    "__weaklistoffset__", T_PYSSIZET, offsetof(ChannelObject, weak_references), READONLY, nullptr};
inline constexpr PyMemberDef kStorage{"_storage", T_OBJECT_EX, offsetof(ChannelObject, source),
                                      READONLY, nullptr};

// Types without a base in common: a class that derives from two of them is refused by Python.
template <typename Open>
PyTypeObject* add_channel(py::module_& module, const char* name, PyMethodDef* methods,
                          PyGetSetDef* properties, PyMemberDef* members) {
  PyType_Slot slots[] = {
      {Py_tp_init, slot(init<Open>)}, {Py_tp_dealloc, slot(channel_dealloc)},
      {Py_tp_methods, methods},       {Py_tp_getset, properties},
      {Py_tp_members, members},       {0, nullptr},
  };
  return add_type(module, name, sizeof(ChannelObject), Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                  slots);
}

}  // namespace shmtensor::python
