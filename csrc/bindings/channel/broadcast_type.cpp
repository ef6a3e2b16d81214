#include "bindings/channel/broadcast_type.hpp"

#include <structmember.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "bindings/channel/broadcast_methods.hpp"
#include "bindings/storage/allocation.hpp"
#include "bindings/support/errors.hpp"
#include "bindings/support/gil.hpp"
#include "session/runtime.hpp"

namespace shmtensor::python {
namespace {

PyTypeObject* g_broadcast_type = nullptr;

constexpr const char* kOnFull[] = {"block", "drop_oldest", "raise"};  // by OnFull

py::object new_broadcast_storage(std::uint64_t limit, std::string_view on_full,
                                 std::string_view label) {
  const auto* const found =
      std::ranges::find_if(kOnFull, [on_full](const char* name) { return on_full == name; });
  if (limit == 0 || limit > BroadcastHeader::kMostMessages || found == std::end(kOnFull)) {
    throw py::value_error("no such broadcast");
  }
  py::object storage = new_shared_storage(BroadcastHeader::bytes(limit), default_strategy(), false);
  const Backing& backing = as_storage(storage)->backing();
  Broadcast::create({backing.arena, backing.block}, limit,
                    static_cast<OnFull>(found - std::begin(kOnFull)), label_of(label));
  return storage;
}

// With a storage that `new_broadcast_storage` made, here or in another process.
int broadcast_init(PyObject* self, PyObject* arguments, PyObject*) {
  return guarded_init([&] {
    PyObject* storage = PyTuple_GET_SIZE(arguments) == 1 ? PyTuple_GET_ITEM(arguments, 0) : nullptr;
    if (storage == nullptr || !is_storage(storage)) {
      throw py::type_error("a broadcast needs a storage");
    }
    const Backing& backing = reinterpret_cast<Storage*>(storage)->backing();
    if (backing.kind != Backing::Kind::block || backing.device >= 0) {
      throw py::type_error("the storage of a broadcast is shared memory of the host");
    }
    std::shared_ptr<Session> session = Runtime::get().find(backing.arena->memory().id());
    if (!session) throw SessionError("the session of the broadcast has ended");
    auto open =
        std::make_unique<OpenBroadcast>(std::move(session), Block{backing.arena, backing.block});
    BroadcastObject& object = broadcast_of(self);
    if (object.open != nullptr)
      throw std::runtime_error("__init__ was called twice for a broadcast");
    object.storage = Py_NewRef(storage);
    object.open = open.release();
  });
}

void broadcast_dealloc(PyObject* self) {
  BroadcastObject& object = broadcast_of(self);
  if (object.weak_references != nullptr) PyObject_ClearWeakRefs(self);
  delete object.open;
  Py_XDECREF(object.storage);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

// Of a broadcast.
PyObject* reader_new(PyTypeObject* type, PyObject* arguments, PyObject*) {
  return guarded([&] {
    PyObject* broadcast =
        PyTuple_GET_SIZE(arguments) == 1 ? PyTuple_GET_ITEM(arguments, 0) : nullptr;
    if (broadcast == nullptr || PyObject_TypeCheck(broadcast, g_broadcast_type) == 0) {
      throw py::type_error("a reader needs a broadcast: call its method reader()");
    }
    Broadcast& core = open_broadcast(broadcast);
    std::unique_ptr<BroadcastReader> reader;
    {
      const GilRelease release;  // joining and leaving may wait for the manager
      reader = std::make_unique<BroadcastReader>(core);
    }
    py::object object = checked(type->tp_alloc(type, 0));
    ReaderObject& made = reader_of(object.ptr());
    made.broadcast = Py_NewRef(broadcast);
    new (&made.closed) std::atomic<bool>(false);
    made.reader = reader.release();
    return object.release().ptr();
  });
}

void reader_dealloc(PyObject* self) {
  ReaderObject& object = reader_of(self);
  if (object.weak_references != nullptr) PyObject_ClearWeakRefs(self);
  {
    const GilRelease release;
    delete object.reader;
  }
  Py_XDECREF(object.broadcast);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* broadcast_maxsize(PyObject* self, void*) {
  return guarded([&] { return PyLong_FromUnsignedLongLong(any_broadcast(self).limit()); });
}
PyObject* broadcast_on_full(PyObject* self, void*) {
  return guarded([&] {
    const auto policy = static_cast<std::size_t>(any_broadcast(self).on_full());
    return PyUnicode_FromString(kOnFull[std::min(policy, std::size(kOnFull) - 1)]);
  });
}
PyObject* broadcast_readers(PyObject* self, void*) {
  return guarded([&] { return PyLong_FromUnsignedLong(any_broadcast(self).readers()); });
}
PyObject* broadcast_closed(PyObject* self, void*) {
  return guarded([&] { return PyBool_FromLong(any_broadcast(self).is_closed()); });
}
PyObject* broadcast_is_shutdown(PyObject* self, void*) {
  return guarded([&] { return PyBool_FromLong(any_broadcast(self).is_shut_down()); });
}
PyObject* reader_missed(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(reader_of(self).reader->missed());
}
PyObject* reader_closed(PyObject* self, void*) {
  return PyBool_FromLong(reader_of(self).closed.load());
}

PyGetSetDef g_broadcast_properties[] = {
    {"maxsize", broadcast_maxsize, nullptr, "Number of messages that fit.", nullptr},
    {"on_full", broadcast_on_full, nullptr,
     "What `put` does if the slowest reader is `maxsize` messages behind.", nullptr},
    {"readers", broadcast_readers, nullptr, "Number of readers, in all processes.", nullptr},
    {"closed", broadcast_closed, nullptr, "True after `close` in this process.", nullptr},
    {"is_shutdown", broadcast_is_shutdown, nullptr, "True after `shutdown` in any process.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyGetSetDef g_reader_properties[] = {
    {"missed", reader_missed, nullptr,
     "Number of messages that were dropped before this reader got them.", nullptr},
    {"closed", reader_closed, nullptr, "True after `close`.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef g_broadcast_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(BroadcastObject, weak_references), READONLY,
     nullptr},
    {"_storage", T_OBJECT_EX, offsetof(BroadcastObject, storage), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyMemberDef g_reader_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ReaderObject, weak_references), READONLY, nullptr},
    {"_broadcast", T_OBJECT_EX, offsetof(ReaderObject, broadcast), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

}  // namespace

Broadcast& any_broadcast(PyObject* self) {
  OpenBroadcast* const open = broadcast_of(self).open;
  if (open == nullptr) {
    throw std::runtime_error(
        "__init__ was not called: a subclass of a broadcast calls super().__init__()");
  }
  return open->broadcast;
}

Broadcast& open_broadcast(PyObject* self) {
  Broadcast& broadcast = any_broadcast(self);
  if (broadcast.is_closed()) throw py::value_error("the broadcast is closed in this process");
  return broadcast;
}

void add_broadcast(py::module_& module) {
  static PyType_Slot slots[] = {
      {Py_tp_init, slot(broadcast_init)},   {Py_tp_dealloc, slot(broadcast_dealloc)},
      {Py_tp_methods, g_broadcast_methods}, {Py_tp_getset, g_broadcast_properties},
      {Py_tp_members, g_broadcast_members}, {0, nullptr},
  };
  static PyType_Spec spec = {"shmtensor._core.BroadcastBase", sizeof(BroadcastObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  static PyType_Slot reader_slots[] = {
      {Py_tp_new, slot(reader_new)},     {Py_tp_dealloc, slot(reader_dealloc)},
      {Py_tp_methods, g_reader_methods}, {Py_tp_getset, g_reader_properties},
      {Py_tp_members, g_reader_members}, {0, nullptr},
  };
  static PyType_Spec reader_spec = {"shmtensor._core.BroadcastReaderBase", sizeof(ReaderObject), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, reader_slots};
  py::object type = checked(PyType_FromSpec(&spec));
  g_broadcast_type = reinterpret_cast<PyTypeObject*>(type.ptr());
  module.add_object("BroadcastBase", type.release());
  module.add_object("BroadcastReaderBase", checked(PyType_FromSpec(&reader_spec)).release());
  module.def("new_broadcast_storage", &new_broadcast_storage);
}

}  // namespace shmtensor::python
