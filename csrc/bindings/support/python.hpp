// The only file that includes pybind11; it precedes all other headers, as Python's headers require.
#pragma once

#include <pybind11/critical_section.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
// Python's headers come before all others.
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace shmtensor::python {

namespace py = pybind11;

/// A function as PyType_Slot takes it.
template <typename Function>
void* slot(Function* function) noexcept {
  return reinterpret_cast<void*>(function);
}

/// A function as PyMethodDef takes it, whose flags declare its real arguments.
template <typename Function>
PyCFunction method(Function* function) noexcept {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

/// The content of a bytes object.
inline std::span<const std::byte> bytes_of_object(PyObject* bytes) noexcept {
  return {reinterpret_cast<const std::byte*>(PyBytes_AS_STRING(bytes)),
          static_cast<std::size_t>(PyBytes_GET_SIZE(bytes))};
}

/// The UTF-8 of a str, which has it as long as it lives; nothing if it has surrogates.
inline std::optional<std::string_view> utf8_of(PyObject* text) noexcept {
  Py_ssize_t size = 0;
  const char* const utf8 = PyUnicode_AsUTF8AndSize(text, &size);
  if (utf8 != nullptr) return std::string_view(utf8, static_cast<std::size_t>(size));
  PyErr_Clear();
  return std::nullopt;
}

/// Takes over a new reference. If it is null, throws the Python error that is set.
inline py::object checked(PyObject* object) {
  if (object == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(object);
}

/// A bytes object with a copy of the bytes.
inline py::object to_bytes(std::span<const std::byte> bytes) {
  return checked(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(bytes.data()),
                                           static_cast<Py_ssize_t>(bytes.size())));
}

/// A str of UTF-8. `errors`, as of `bytes.decode`, is null for "strict".
inline py::object to_str(std::span<const std::byte> utf8, const char* errors = nullptr) {
  return checked(PyUnicode_DecodeUTF8(reinterpret_cast<const char*>(utf8.data()),
                                      static_cast<Py_ssize_t>(utf8.size()), errors));
}

}  // namespace shmtensor::python
