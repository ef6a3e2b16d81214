#include "bindings/transfer/array_reducers.hpp"

#include <atomic>
#include <cstring>
#include <limits>

#include "bindings/support/errors.hpp"
#include "bindings/tensor/dtype.hpp"
#include "bindings/tensor/shape.hpp"
#include "bindings/tensor/shared_memory.hpp"
#include "bindings/tensor/tensor.hpp"
#include "bindings/transfer/reducers.hpp"

namespace shmtensor::python {
namespace {

using py::detail::npy_api;

PyObject* g_rebuild_array = nullptr;
PyObject* g_rebuild_elements = nullptr;
PyObject* g_view = nullptr;    // "view"
PyObject* g_reduce = nullptr;  // "__reduce__"

using Limit = std::atomic<std::int64_t>;
constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
Limit g_large{kNone};  // bytes of an array for which the standard library's picklers call Python
Limit g_apart{kNone};  // bytes from which on the elements are apart from a message's pickle

// False for an array of a subclass.
bool is_exact_array(const py::array& array) {
  return Py_TYPE(array.ptr()) == npy_api::get().PyArray_Type_;
}

// --- the elements of private arrays ---

constexpr auto kContiguous = npy_api::NPY_ARRAY_C_CONTIGUOUS_ | npy_api::NPY_ARRAY_F_CONTIGUOUS_;

/// Return true if the elements are their bytes: neither objects nor, as NumPy's StringDType has it,
/// references to memory elsewhere.
bool has_plain_elements(const py::array& array) {
  constexpr std::uint64_t kReferences = 1;  // NPY_ITEM_REFCOUNT
  constexpr std::uint64_t kAsList = 2;      // NPY_LIST_PICKLE
  return (array.dtype().flags() & (kReferences | kAsList)) == 0 && array.itemsize() > 0;
}

// The array, or a copy of NumPy's own class without gaps between the elements.
py::array without_gaps(const py::array& array) {
  if ((array.flags() & kContiguous) != 0) return array;
  constexpr int kWanted = npy_api::NPY_ARRAY_ENSUREARRAY_ | npy_api::NPY_ARRAY_C_CONTIGUOUS_;
  const py::object copy =
      checked(npy_api::get().PyArray_FromAny_(array.ptr(), nullptr, 0, 0, kWanted, nullptr));
  return py::reinterpret_borrow<py::array>(copy);
}

// The bytes of any dtype: many have no buffer protocol. Writable, also for a read-only array: the
// receiver's copy is its own.
py::object buffer_of(const py::array& array) {
  const py::object owner =
      checked(PyTuple_Pack(1, array.ptr()));  // an array would pass its flags on
  const py::array bytes(py::dtype::of<std::uint8_t>(), {array.nbytes()}, {1}, array.data(), owner);
  return checked(PyPickleBuffer_FromObject(bytes.ptr()));
}

py::object bytes_with(const py::array& array) {
  return to_bytes(
      {static_cast<const std::byte*>(array.data()), static_cast<std::size_t>(array.nbytes())});
}

py::object new_array(PyTypeObject* kind, PyObject* dtype, PyObject* shape, PyObject* buffer,
                     bool fortran) {
  const py::object arguments =
      checked(Py_BuildValue("(OOOiOs)", shape, dtype, buffer, 0, Py_None, fortran ? "F" : "C"));
  // As NumPy unpickles: without the `__new__` of a subclass.
  return checked(npy_api::get().PyArray_Type_->tp_new(kind, arguments.ptr(), nullptr));
}

// rebuild_elements(content, dtype, shape, is_fortran, class=ndarray)
PyObject* rebuild_elements(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([&]() -> py::object {
    PyTypeObject* kind = npy_api::get().PyArray_Type_;
    if (count == 5 && is_array_class(arguments[4])) {
      kind = reinterpret_cast<PyTypeObject*>(arguments[4]);
    } else if (count != 4) {
      throw py::type_error("rebuild_elements takes elements, dtype, shape, order, perhaps a class");
    }
    PyObject* const content = arguments[0];
    auto dtype = py::reinterpret_borrow<py::object>(arguments[1]);
    if (PyLong_CheckExact(dtype.ptr())) dtype = dtype_of_code(dtype.cast<std::uint8_t>()).object;
    const bool fortran = arguments[3] == Py_True;
    if (!PyBytes_CheckExact(content)) {
      return new_array(kind, dtype.ptr(), arguments[2], content, fortran);
    }
    py::array made = new_array(kind, dtype.ptr(), arguments[2], Py_None, fortran);
    const std::span<const std::byte> bytes = bytes_of_object(content);
    if (static_cast<std::size_t>(made.nbytes()) != bytes.size()) {
      throw py::value_error("the elements of an array are damaged");
    }
    if (!bytes.empty()) std::memcpy(const_cast<void*>(made.data()), bytes.data(), bytes.size());
    return made;
  });
}

// Return true unless its class adds something to the pickle of an array, such as a mask.
bool pickles_as_array(const py::array& array) {
  if (is_exact_array(array)) return true;
  const auto reduce_of = [](PyTypeObject* kind) {
    return checked(PyObject_GetAttr(reinterpret_cast<PyObject*>(kind), g_reduce));
  };
  return reduce_of(Py_TYPE(array.ptr())).is(reduce_of(npy_api::get().PyArray_Type_));
}

// `array.__reduce__()`
py::object reduce_by_itself(const py::array& array) {
  return checked(PyObject_CallMethodNoArgs(array.ptr(), g_reduce));
}

// The reduction of an array by its elements: a bytes object or, if they shall be `apart`, a buffer
// that the pickler may place outside of the pickle. Arrays of Python objects, and of dtypes without
// a size, NumPy reduces itself.
py::object reduce_elements(const py::array& array, bool apart) {
  if (!has_plain_elements(array)) return reduce_by_itself(array);
  const int order = array.flags() & kContiguous;
  const py::array packed = without_gaps(array);
  const py::object content = apart ? buffer_of(packed) : bytes_with(packed);
  py::object dtype = array.dtype();
  if (const std::uint8_t code = code_of_dtype(dtype.ptr()); code != kNoCode) dtype = py::int_(code);
  const py::object shape =
      to_tuple(std::span(array.shape(), static_cast<std::size_t>(array.ndim())));
  PyObject* const fortran = order == npy_api::NPY_ARRAY_F_CONTIGUOUS_ ? Py_True : Py_False;
  const py::object arguments =
      is_exact_array(array)
          ? checked(PyTuple_Pack(4, content.ptr(), dtype.ptr(), shape.ptr(), fortran))
          : checked(PyTuple_Pack(5, content.ptr(), dtype.ptr(), shape.ptr(), fortran,
                                 reinterpret_cast<PyObject*>(Py_TYPE(array.ptr()))));
  return checked(PyTuple_Pack(2, g_rebuild_elements, arguments.ptr()));
}

// --- the reducers ---

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
    {"rebuild_elements", method(rebuild_elements), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool is_array_class(PyObject* object) {
  return PyType_Check(object) != 0 && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(object),
                                                       npy_api::get().PyArray_Type_) != 0;
}

void add_array_reducers(py::module_& module) {
  if (PyModule_AddFunctions(module.ptr(), g_array_functions) != 0) throw py::error_already_set();
  g_view = checked(PyUnicode_InternFromString("view")).release().ptr();
  g_reduce = checked(PyUnicode_InternFromString("__reduce__")).release().ptr();
  g_rebuild_array = named_by_pickles(module, "rebuild_array");
  g_rebuild_elements = named_by_pickles(module, "rebuild_elements");
  module.def("set_large_array", [](std::int64_t large, std::int64_t apart) {
    g_large.store(large);
    g_apart.store(apart);
  });
}

}  // namespace shmtensor::python
