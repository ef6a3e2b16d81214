#include "bindings/transfer/array_reducers.hpp"

#include <atomic>
#include <limits>

#include "bindings/support/errors.hpp"
#include "bindings/tensor/shared_memory.hpp"
#include "bindings/tensor/tensor.hpp"
#include "bindings/transfer/array_elements.hpp"

namespace shmtensor::python {
namespace {

PyObject* g_rebuild_array = nullptr;
PyObject* g_view = nullptr;  // "view"

using Limit = std::atomic<std::int64_t>;
constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
Limit g_large{kNone};  // bytes of an array for which the standard library's picklers call Python
Limit g_apart{kNone};  // bytes from which on the elements are apart from a message's pickle

// The reduction of an array over shared memory to a tensor; null for another array.
py::object reduce_if_shared(const py::array& array) {
  if (!pickles_as_array(array)) return {};
  const py::object tensor = tensor_over_array(array);
  if (!tensor) return {};
  const py::object arguments =
      is_exact_array(array)
          ? checked(PyTuple_Pack(1, tensor.ptr()))
          : checked(
                PyTuple_Pack(2, tensor.ptr(), reinterpret_cast<PyObject*>(Py_TYPE(array.ptr()))));
  return checked(PyTuple_Pack(2, g_rebuild_array, arguments.ptr()));
}

PyObject* reduce_shared(PyObject*, PyObject* array) {
  return guarded([&] {
    const py::object shared = reduce_if_shared(to_array(array));
    return shared ? shared : py::none();
  });
}

// A method whose `self` reduces a large array. NumPy's own `__reduce__`, for protocol 4, reduces a
// small one: a program that shares none runs no code of this package in Python.
PyObject* reduce_array(PyObject* reduce_large, PyObject* array) {
  return guarded([&] {
    const py::array known = to_array(array);
    if (py::object shared = reduce_if_shared(known)) return shared;
    if (known.nbytes() < g_large.load(std::memory_order_relaxed)) return reduce_by_itself(known);
    return checked(PyObject_CallOneArg(reduce_large, array));
  });
}

PyObject* reduce_in_message(PyObject* array, std::int64_t apart) {
  return guarded([&] {
    const py::array known = to_array(array);
    if (py::object shared = reduce_if_shared(known)) return shared;
    return reduce_elements(known, known.nbytes() >= apart);
  });
}

// For a pickler of messages.
PyObject* reduce_array_out_of_band(PyObject*, PyObject* array) {
  return reduce_in_message(array, g_apart.load(std::memory_order_relaxed));
}

// The same with a buffer for every array that has elements.
PyObject* reduce_array_apart(PyObject*, PyObject* array) { return reduce_in_message(array, 1); }

PyObject* rebuild_array(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([&] {
    if (count < 1 || count > 2 || !is_tensor(arguments[0])) {
      throw py::type_error("rebuild_array takes a tensor and perhaps a class");
    }
    py::object array = to_numpy(*reinterpret_cast<Tensor*>(arguments[0]));
    if (count == 2) {
      array = checked(PyObject_CallMethodOneArg(array.ptr(), g_view, arguments[1]));
    }
    return array;
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
    {"reduce_array_apart", reduce_array_apart, METH_O, nullptr},
    {"rebuild_array", method(rebuild_array), METH_FASTCALL,
     "rebuild_array(tensor, kind=numpy.ndarray)\n--\n\nReturn an array over the memory of a "
     "tensor."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void add_array_reducers(py::module_& module) {
  if (PyModule_AddFunctions(module.ptr(), g_array_functions) != 0) throw py::error_already_set();
  g_view = checked(PyUnicode_InternFromString("view")).release().ptr();
  py::object rebuild = module.attr("rebuild_array");
  rebuild.attr("__module__") = py::str("shmtensor.reducers");
  g_rebuild_array = rebuild.release().ptr();
  module.def("set_large_array", [](std::int64_t large, std::int64_t apart) {
    g_large.store(large);
    g_apart.store(apart);
  });
}

}  // namespace shmtensor::python
