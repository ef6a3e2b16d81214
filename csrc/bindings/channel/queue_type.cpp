#include "bindings/channel/queue_type.hpp"

#include <structmember.h>

#include <memory>
#include <stdexcept>
#include <utility>

#include "base/error.hpp"
#include "bindings/channel/queue_methods.hpp"
#include "bindings/channel/queue_transfer.hpp"
#include "bindings/storage/allocation.hpp"
#include "bindings/support/errors.hpp"

namespace shmtensor::python {
namespace {

PyObject* get_maxsize(PyObject* self, void*) {
  return guarded([&] { return PyLong_FromUnsignedLongLong(open_queue(self).queue.limit()); });
}

PyObject* get_redeliver(PyObject* self, void*) {
  return guarded([&] { return PyBool_FromLong(open_queue(self).queue.redelivers()); });
}

PyObject* get_closed(PyObject* self, void*) {
  return guarded([&] { return PyBool_FromLong(open_queue(self).queue.is_closed()); });
}

PyObject* get_is_shutdown(PyObject* self, void*) {
  return guarded([&] { return PyBool_FromLong(open_queue(self).queue.is_shut_down()); });
}

// With a storage that `new_queue_storage` made, here or in another process.
int queue_init(PyObject* self, PyObject* arguments, PyObject*) {
  return guarded_init([&] {
    PyObject* storage = PyTuple_GET_SIZE(arguments) == 1 ? PyTuple_GET_ITEM(arguments, 0) : nullptr;
    if (storage == nullptr || !is_storage(storage)) throw py::type_error("a queue needs a storage");
    const Backing& backing = reinterpret_cast<Storage*>(storage)->backing();
    if (backing.kind != Backing::Kind::block || backing.device >= 0) {
      throw py::type_error("the storage of a queue is shared memory of the host");
    }
    std::shared_ptr<Session> session = Runtime::get().find(backing.arena->memory().id());
    if (!session) throw SessionError("the session of the queue has ended");
    auto open =
        std::make_unique<OpenQueue>(std::move(session), Block{backing.arena, backing.block});
    QueueObject& object = object_of(self);
    if (object.open != nullptr) throw std::runtime_error("__init__ was called twice for a queue");
    object.storage = Py_NewRef(storage);
    object.open = open.release();
  });
}

void queue_dealloc(PyObject* self) {
  QueueObject& object = object_of(self);
  if (object.weak_references != nullptr) PyObject_ClearWeakRefs(self);
  delete object.open;
  Py_XDECREF(object.storage);
  Py_XDECREF(object.dumps);
  Py_XDECREF(object.claims);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

py::object new_queue_storage(std::uint64_t limit, bool redeliver, std::string_view label) {
  py::object storage = new_shared_storage(Queue::bytes(redeliver), default_strategy(), false);
  const Backing& backing = as_storage(storage)->backing();
  Queue::create({backing.arena, backing.block}, limit, redeliver, label_of(label));
  return storage;
}

PyGetSetDef g_properties[] = {
    {"maxsize", get_maxsize, nullptr, "Number of messages that fit; 0: no limit.", nullptr},
    {"redeliver", get_redeliver, nullptr,
     "True if the messages of a killed consumer are received again.", nullptr},
    {"closed", get_closed, nullptr, "True after `close` in this process.", nullptr},
    {"is_shutdown", get_is_shutdown, nullptr, "True after `shutdown` in any process.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef g_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(QueueObject, weak_references), READONLY, nullptr},
    {"_storage", T_OBJECT_EX, offsetof(QueueObject, storage), READONLY, nullptr},
    {"_dumps", T_OBJECT, offsetof(QueueObject, dumps), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

}  // namespace

OpenQueue& open_queue(PyObject* self) {
  OpenQueue* const open = object_of(self).open;
  if (open == nullptr) {
    throw std::runtime_error(
        "__init__ was not called: a subclass of a queue calls super().__init__()");
  }
  return *open;
}

void add_queue(py::module_& module) {
  static PyType_Slot slots[] = {
      {Py_tp_init, slot(queue_init)},   {Py_tp_dealloc, slot(queue_dealloc)},
      {Py_tp_methods, g_queue_methods}, {Py_tp_getset, g_properties},
      {Py_tp_members, g_members},       {0, nullptr},
  };
  static PyType_Spec spec = {"shmtensor._core.QueueBase", sizeof(QueueObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  module.add_object("QueueBase", checked(PyType_FromSpec(&spec)).release());
  module.def("new_queue_storage", &new_queue_storage, py::arg("limit"),
             py::arg("redeliver") = false, py::arg("label") = "");
  add_queue_exceptions(module);
}

}  // namespace shmtensor::python
