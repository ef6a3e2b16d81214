#include "bindings/transfer/array_reducers.hpp"

#include <atomic>
#include <limits>

#include "bindings/support/errors.hpp"
#include "bindings/tensor/shared_memory.hpp"
#include "bindings/tensor/tensor.hpp"

namespace shmtensor::python {
namespace {

PyObject* g_rebuild_array = nullptr;
PyObject* g_reduce = nullptr;     // "__reduce__"
PyObject* g_reduce_ex = nullptr;  // "__reduce_ex__"
std::atomic<std::int64_t> g_large{std::numeric_limits<std::int64_t>::max()};

PyObject* over_tensor(const py::object& tensor) {
  const py::object arguments = checked(PyTuple_Pack(1, tensor.ptr()));
  return PyTuple_Pack(2, g_rebuild_array, arguments.ptr());
}

// The reduction to a tensor; None unless the elements are in shared memory.
PyObject* reduce_shared(PyObject*, PyObject* array) {
  return guarded([&] {
    const py::object tensor = tensor_over_array(to_array(array));
    return tensor ? over_tensor(tensor) : Py_NewRef(Py_None);
  });
}

// A method whose `self` reduces a large array. NumPy's own `__reduce__`, for protocol 4, reduces a
// small one: a program that shares none runs no code of this package in Python.
PyObject* reduce_array(PyObject* reduce_large, PyObject* array) {
  return guarded([&] {
    const py::array known = to_array(array);
    if (const py::object tensor = tensor_over_array(known)) return over_tensor(tensor);
    if (known.nbytes() < g_large.load(std::memory_order_relaxed)) {
      return PyObject_CallMethodNoArgs(array, g_reduce);
    }
    return PyObject_CallOneArg(reduce_large, array);
  });
}

// The same for a pickler of protocol 5, which has a place for buffers.
PyObject* reduce_array_out_of_band(PyObject*, PyObject* array) {
  return guarded([&] {
    if (const py::object tensor = tensor_over_array(to_array(array))) return over_tensor(tensor);
    const py::object protocol = checked(PyLong_FromLong(5));
    return PyObject_CallMethodOneArg(array, g_reduce_ex, protocol.ptr());
  });
}

PyObject* rebuild_array(PyObject*, PyObject* tensor) {
  return guarded([&] {
    if (!is_tensor(tensor)) throw py::type_error("not a tensor");
    return to_numpy(*reinterpret_cast<Tensor*>(tensor)).release().ptr();
  });
}

PyObject* array_reducer(PyObject*, PyObject* reduce_large) {
  static PyMethodDef definition = {"reduce_array", reduce_array, METH_O, nullptr};
  return PyCFunction_New(&definition, reduce_large);
}

PyMethodDef g_array_functions[] = {
    {"array_reducer", array_reducer, METH_O, nullptr},
    {"reduce_shared", reduce_shared, METH_O, nullptr},
    {"reduce_array_out_of_band", reduce_array_out_of_band, METH_O, nullptr},
    {"rebuild_array", rebuild_array, METH_O,
     "rebuild_array(tensor)\n--\n\nReturn an array over the memory of a tensor."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void add_array_reducers(py::module_& module) {
  if (PyModule_AddFunctions(module.ptr(), g_array_functions) != 0) throw py::error_already_set();
  g_reduce = checked(PyUnicode_InternFromString("__reduce__")).release().ptr();
  g_reduce_ex = checked(PyUnicode_InternFromString("__reduce_ex__")).release().ptr();
  py::object rebuild = module.attr("rebuild_array");
  rebuild.attr("__module__") = py::str("shmtensor.reducers");
  g_rebuild_array = rebuild.release().ptr();
  module.def("set_large_array", [](std::int64_t nbytes) { g_large.store(nbytes); });
}

}  // namespace shmtensor::python
