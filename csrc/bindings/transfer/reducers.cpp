#include "bindings/transfer/reducers.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <span>

#include "base/error.hpp"
#include "bindings/storage/allocation.hpp"
#include "bindings/support/errors.hpp"
#include "bindings/tensor/release.hpp"
#include "bindings/tensor/tensor.hpp"
#include "bindings/transfer/array_reducers.hpp"
#include "bindings/transfer/send_receive.hpp"
#include "bindings/transfer/tensor_view.hpp"

namespace shmtensor::python {
namespace {

PyObject* g_rebuild_tensor = nullptr;
PyObject* g_rebuild_view = nullptr;
PyObject* g_rebuild_storage = nullptr;

std::span<const std::byte> to_span(PyObject* bytes) {
  if (!PyBytes_Check(bytes)) throw py::type_error("a handle is a bytes object");
  return bytes_of_object(bytes);
}

// (function, (bytes,)) or (function, (first, bytes)); a dtype without a code follows.
PyObject* reduction(PyObject* function, const py::object& first, const py::object& second,
                    const Tensor* tensor) {
  std::array<PyObject*, 3> items{};
  std::size_t count = 0;
  if (first) items[count++] = first.ptr();
  if (second) items[count++] = second.ptr();
  if (tensor != nullptr && tensor->dtype_code == kNoCode) items[count++] = tensor->dtype;
  py::object arguments = checked(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (std::size_t i = 0; i < count; ++i) {
    PyTuple_SET_ITEM(arguments.ptr(), static_cast<Py_ssize_t>(i), Py_NewRef(items[i]));
  }
  return PyTuple_Pack(2, function, arguments.ptr());
}

PyObject* reduce_tensor(PyObject* object, DeviceOrder order) {
  return guarded([&] {
    const Tensor& tensor = to_tensor(object);
    const py::object held = storage_of(tensor);
    const Storage& storage = *as_storage(held);
    const ViewBytes view(tensor);
    if (storage.backing().kind == Backing::Kind::block) {
      const Access access = tensor.read_only ? Access::read_only : Access::read_write;
      return reduction(g_rebuild_tensor, send_storage(storage, access, view.get(), order), {},
                       &tensor);
    }
    // Reduced by itself, the storage is shared by all views in the message: the pickler has it in
    // its memo.
    return reduction(g_rebuild_view, held, to_bytes(view.get()), &tensor);
  });
}

// For blocks and private memory; a file's storage has a reducer in Python.
PyObject* reduce_storage(PyObject* object, DeviceOrder order) {
  return guarded([&] {
    const Storage& storage = to_storage(object);
    if (storage.backing().kind == Backing::Kind::block) {
      return reduction(g_rebuild_storage, send_storage(storage, Access::read_write, {}, order), {},
                       nullptr);
    }
    const Backing& backing = storage.backing();
    const py::object copy = share_copy({backing.data, storage.size});
    const py::object sent = send_storage(*as_storage(copy), backing.access, {});
    return reduction(g_rebuild_storage, sent, {}, nullptr);
  });
}

PyObject* reduce_tensor_now(PyObject*, PyObject* object) {
  return reduce_tensor(object, DeviceOrder::by_wait);
}

PyObject* reduce_storage_now(PyObject*, PyObject* object) {
  return reduce_storage(object, DeviceOrder::by_wait);
}

// The reduction of a tensor or storage whose reader waits for an event first.
PyObject* reduce_after_event(PyObject*, PyObject* object) {
  return is_tensor(object) ? reduce_tensor(object, DeviceOrder::by_event)
                           : reduce_storage(object, DeviceOrder::by_event);
}

PyObject* rebuild_tensor(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([&] {
    if (count < 1 || count > 2)
      throw py::type_error("rebuild_tensor takes a handle and perhaps a dtype");
    return receive_tensor(to_span(arguments[0]), count == 2 ? arguments[1] : nullptr);
  });
}

PyObject* rebuild_view(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([&] {
    if (count < 2 || count > 3 || !is_storage(arguments[0])) {
      throw py::type_error("rebuild_view takes a storage, a view and perhaps a dtype");
    }
    return tensor_from_view(py::reinterpret_borrow<py::object>(arguments[0]), to_span(arguments[1]),
                            count == 3 ? arguments[2] : nullptr);
  });
}

PyObject* rebuild_storage(PyObject*, PyObject* bytes) {
  return guarded([&] { return receive_storage(to_span(bytes)); });
}

PyObject* cancel(PyObject*, PyObject* bytes) {
  return guarded([&] { cancel_handle(to_span(bytes)); });
}

// Return true if the program has imported NumPy, or is importing it.
bool has_numpy() {
  static std::atomic<bool> seen{false};
  if (seen.load(std::memory_order_relaxed)) return true;
  PyObject* const modules = PyImport_GetModuleDict();
  if (PyDict_GetItemString(modules, "numpy") == nullptr) return false;
  seen.store(true, std::memory_order_relaxed);
  return true;
}

// A method of a table: returns the reducer of a class from the first of the two tables in `self`
// that has it; for a class of tensors or arrays, that of a module that registers some, too.
PyObject* find_reducer(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2) {
    PyErr_SetString(PyExc_TypeError, "find_reducer takes a table and a class");
    return nullptr;
  }
  PyObject* const kind = arguments[1];
  for (Py_ssize_t i = 0; i < 2; ++i) {
    PyObject* const found = PyDict_GetItemWithError(PyTuple_GET_ITEM(self, i), kind);
    if (found != nullptr) return Py_NewRef(found);
    if (PyErr_Occurred() != nullptr) return nullptr;
  }
  return guarded([&]() -> PyObject* {
    if (!is_tensor_class(kind) && !(has_numpy() && is_array_class(kind))) {
      PyErr_SetObject(PyExc_KeyError, kind);
      return nullptr;
    }
    const py::object rule =
        py::module_::import("shmtensor._array_reducers").attr("reducer_of_class");
    return PyObject_Vectorcall(rule.ptr(), arguments, 2, nullptr);
  });
}

PyMethodDef g_find_reducer = {"find_reducer", method(find_reducer), METH_FASTCALL, nullptr};

PyMethodDef g_functions[] = {
    {"reduce_tensor", reduce_tensor_now, METH_O, nullptr},
    {"reduce_storage", reduce_storage_now, METH_O, nullptr},
    {"reduce_after_event", reduce_after_event, METH_O, nullptr},
    {"rebuild_tensor", method(rebuild_tensor), METH_FASTCALL, nullptr},
    {"rebuild_view", method(rebuild_view), METH_FASTCALL, nullptr},
    {"rebuild_storage", rebuild_storage, METH_O, nullptr},
    {"cancel_handle", cancel, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyObject* named_by_pickles(py::module_& module, const char* function) {
  py::object object = module.attr(function);
  object.attr("__module__") = py::str("shmtensor.reducers");
  return object.release().ptr();
}

void add_reducers(py::module_& module) {
  if (PyModule_AddFunctions(module.ptr(), g_functions) != 0) throw py::error_already_set();
  module.def("reducer_lookup", [](const py::dict& first, const py::dict& second) {
    const py::tuple self = py::make_tuple(first, second);
    const py::object found = checked(PyCFunction_New(&g_find_reducer, self.ptr()));
    return checked(PyInstanceMethod_New(found.ptr()));
  });
  g_rebuild_tensor = named_by_pickles(module, "rebuild_tensor");
  g_rebuild_view = named_by_pickles(module, "rebuild_view");
  g_rebuild_storage = named_by_pickles(module, "rebuild_storage");
}

}  // namespace shmtensor::python
