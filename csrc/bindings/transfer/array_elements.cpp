#include "bindings/transfer/array_elements.hpp"

#include <cstring>

#include "bindings/support/errors.hpp"
#include "bindings/tensor/dtype.hpp"
#include "bindings/tensor/shape.hpp"

namespace shmtensor::python {
namespace {

using py::detail::npy_api;

PyObject* g_rebuild_elements = nullptr;
PyObject* g_reduce = nullptr;  // "__reduce__"

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
    const py::array made = new_array(kind, dtype.ptr(), arguments[2], Py_None, fortran);
    const std::span<const std::byte> bytes = bytes_of_object(content);
    if (static_cast<std::size_t>(made.nbytes()) != bytes.size()) {
      throw py::value_error("the elements of an array are damaged");
    }
    if (!bytes.empty()) std::memcpy(const_cast<void*>(made.data()), bytes.data(), bytes.size());
    return made;
  });
}

PyMethodDef g_elements_functions[] = {
    {"rebuild_elements", method(rebuild_elements), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool is_array_class(PyObject* object) {
  return PyType_Check(object) != 0 && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(object),
                                                       npy_api::get().PyArray_Type_) != 0;
}

bool is_exact_array(const py::array& array) {
  return Py_TYPE(array.ptr()) == npy_api::get().PyArray_Type_;
}

bool pickles_as_array(const py::array& array) {
  if (is_exact_array(array)) return true;
  const auto reduce_of = [](PyTypeObject* kind) {
    return checked(PyObject_GetAttr(reinterpret_cast<PyObject*>(kind), g_reduce));
  };
  return reduce_of(Py_TYPE(array.ptr())).is(reduce_of(npy_api::get().PyArray_Type_));
}

py::object reduce_by_itself(const py::array& array) {
  return checked(PyObject_CallMethodNoArgs(array.ptr(), g_reduce));
}

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

void add_array_elements(py::module_& module) {
  if (PyModule_AddFunctions(module.ptr(), g_elements_functions) != 0) {
    throw py::error_already_set();
  }
  g_reduce = checked(PyUnicode_InternFromString("__reduce__")).release().ptr();
  py::object rebuild = module.attr("rebuild_elements");
  rebuild.attr("__module__") = py::str("shmtensor.reducers");
  g_rebuild_elements = rebuild.release().ptr();
}

}  // namespace shmtensor::python
