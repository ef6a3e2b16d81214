// The loop that serializes items, as tight as it can be: what it adds to pickle.dumps is seen.
#include <array>
#include <cstring>
#include <string>

#include "bindings/items.hpp"
#include "bindings/python.hpp"

namespace shmtensor::python {
namespace {

PyObject* g_dumps = nullptr;     // pickle.dumps
PyObject* g_callback = nullptr;  // ("buffer_callback",)
PyObject* g_protocol = nullptr;
PyTypeObject* g_ndarray = nullptr;

bool append(PyObject* array, const void* data, std::size_t size) {
  const Py_ssize_t before = PyByteArray_GET_SIZE(array);
  if (PyByteArray_Resize(array, before + static_cast<Py_ssize_t>(size)) != 0) return false;
  std::memcpy(PyByteArray_AS_STRING(array) + before, data, size);
  return true;
}

// pack(iterator, staged, entries, base, limit, count, buffers, keep, arrays)
//
// Pickles items into `staged` and notes `base | offset` of each in `entries`, both bytearrays,
// until there are `limit` bytes or `count` items more. Returns None at the end of the iterator,
// True for more, and (item, pickle or None) for an item that the caller must add: one with
// out-of-band buffers, which are in the list `buffers` then, of which `keep` is the append method;
// or, if `arrays`, an array. An item that cannot be pickled is left in `buffers`.
PyObject* pack(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    if (count != 9) throw py::type_error("pack takes 9 arguments");
    PyObject* iterator = arguments[0];
    PyObject* staged = arguments[1];
    PyObject* entries = arguments[2];
    const std::uint64_t base = PyLong_AsUnsignedLongLong(arguments[3]);
    const Py_ssize_t limit = PyLong_AsSsize_t(arguments[4]);
    const Py_ssize_t most = PyLong_AsSsize_t(arguments[5]);
    PyObject* buffers = arguments[6];
    PyObject* keep = arguments[7];
    const bool arrays = arguments[8] == Py_True;
    if (PyErr_Occurred() != nullptr) return nullptr;
    if (!PyByteArray_CheckExact(staged) || !PyByteArray_CheckExact(entries) ||
        !PyList_CheckExact(buffers) || !PyIter_Check(iterator)) {
      throw py::type_error("pack takes an iterator, two bytearrays and a list");
    }
    for (Py_ssize_t done = 0; done < most; ++done) {
      PyObject* next = PyIter_Next(iterator);
      if (next == nullptr) return PyErr_Occurred() != nullptr ? nullptr : Py_NewRef(Py_None);
      const py::object item = py::reinterpret_steal<py::object>(next);
      if (arrays && Py_TYPE(next) == g_ndarray) return PyTuple_Pack(2, next, Py_None);
      const std::array<PyObject*, 4> call{nullptr, next, g_protocol, keep};
      PyObject* made =
          PyObject_Vectorcall(g_dumps, &call[1], 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, g_callback);
      if (made == nullptr) {
        py::error_already_set cause;
        if (PyList_Append(buffers, next) != 0) return nullptr;
        cause.restore();
        return nullptr;
      }
      const py::object data = py::reinterpret_steal<py::object>(made);
      if (PyList_GET_SIZE(buffers) != 0) return PyTuple_Pack(2, next, made);
      const std::uint64_t entry = base | static_cast<std::uint64_t>(PyByteArray_GET_SIZE(staged));
      if (!append(entries, &entry, sizeof entry) ||
          !append(staged, PyBytes_AS_STRING(made),
                  static_cast<std::size_t>(PyBytes_GET_SIZE(made)))) {
        return nullptr;
      }
      if (PyByteArray_GET_SIZE(staged) >= limit) break;
    }
    return Py_NewRef(Py_True);
  });
}

PyMethodDef g_functions[] = {
    {"pack", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(pack)), METH_FASTCALL,
     nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void add_pack(py::module_& module) {
  if (PyModule_AddFunctions(module.ptr(), g_functions) != 0) throw py::error_already_set();
  g_dumps = py::object(py::module_::import("pickle").attr("dumps")).release().ptr();
  g_callback = py::make_tuple("buffer_callback").release().ptr();
  g_protocol = py::int_(5).release().ptr();
  const py::object ndarray = py::module_::import("numpy").attr("ndarray");
  g_ndarray = reinterpret_cast<PyTypeObject*>(py::object(ndarray).release().ptr());
}

}  // namespace shmtensor::python
