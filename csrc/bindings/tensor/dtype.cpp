#include "bindings/tensor/dtype.hpp"

#include <algorithm>
#include <array>
#include <atomic>

#include "base/error.hpp"

namespace shmtensor::python {
namespace {

// The order is part of the handle's format: append, never change.
constexpr std::array kNames = {"bool",      "int8",       "uint8",      "int16",
                               "uint16",    "int32",      "uint32",     "int64",
                               "uint64",    "float16",    "float32",    "float64",
                               "complex64", "complex128", "longdouble", "clongdouble"};

struct Known {
  PyObject* numpy_dtype = nullptr;  // the type numpy.dtype
  std::array<PyObject*, kNames.size()> objects{};
  std::array<std::int32_t, kNames.size()> sizes{};
};

// Made at first use: at the import of shmtensor NumPy may not be ready. Never freed, as
// NumPy's own singletons are not.
const Known& known() {
  static std::atomic<const Known*> published{nullptr};
  if (const Known* ready = published.load(std::memory_order_acquire)) return *ready;
  auto* made = new Known;
  const py::object dtype = py::module_::import("numpy").attr("dtype");
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const py::object object = dtype(kNames[i]);
    made->sizes[i] = object.attr("itemsize").cast<std::int32_t>();
    made->objects[i] = py::object(object).release().ptr();
  }
  made->numpy_dtype = py::object(dtype).release().ptr();
  const Known* expected = nullptr;
  if (!published.compare_exchange_strong(expected, made)) {
    delete made;  // another thread's is the same
    return *expected;
  }
  return *made;
}

// The dtype of NumPy's array for a dtype that an array cannot have, such as "S" or a subarray.
Dtype definite(const py::object& value) {
  const py::object sample = py::module_::import("numpy").attr("empty")(0, value);
  Dtype result = to_dtype(sample.attr("dtype"));
  const py::tuple shape = sample.attr("shape");
  for (std::size_t i = 1; i < shape.size(); ++i) {
    result.inner.push_back(shape[i].cast<std::int64_t>());
  }
  return result;
}

}  // namespace

std::uint8_t code_of_dtype(PyObject* dtype) {
  const auto& objects = known().objects;
  const auto found = std::ranges::find(objects, dtype);
  return found == objects.end() ? kNoCode : static_cast<std::uint8_t>(found - objects.begin() + 1);
}

Dtype to_dtype(const py::object& value) {
  const Known& table = known();
  constexpr std::size_t kFloat64 = 11;
  PyObject* wanted = value.is_none() ? table.objects[kFloat64] : value.ptr();
  if (const std::uint8_t code = code_of_dtype(wanted); code != kNoCode) return dtype_of_code(code);
  if (!PyObject_TypeCheck(wanted, reinterpret_cast<PyTypeObject*>(table.numpy_dtype))) {
    PyObject* const made = PyObject_CallOneArg(table.numpy_dtype, wanted);
    if (made == nullptr && PyErr_ExceptionMatches(PyExc_TypeError) != 0) {
      PyErr_Clear();  // the same again, with an error that helps
      return to_dtype(py::module_::import("shmtensor._values").attr("numpy_dtype")(value));
    }
    return to_dtype(checked(made));
  }
  if (value.attr("hasobject").cast<bool>()) {
    throw py::type_error("cannot share dtype " + std::string(py::str(value)) +
                         ": it contains Python objects, which live in one process only");
  }
  if (!value.attr("subdtype").is_none()) return definite(value);
  const auto item_size = value.attr("itemsize").cast<std::int32_t>();
  if (item_size == 0) {
    const auto kind = value.attr("kind").cast<std::string>();
    if (kind == "S" || kind == "U") return definite(value);
    throw py::type_error("cannot share dtype " + std::string(py::str(value)) +
                         ": its items have no size");
  }
  return {value, item_size, kNoCode, {}};
}

Dtype dtype_of_code(std::uint8_t code) {
  const Known& table = known();
  if (code == kNoCode || code > table.objects.size()) {
    throw StaleHandle("cannot read a tensor's handle: dtype " + std::to_string(code) +
                      " is unknown; was it sent by a newer shmtensor?");
  }
  const std::size_t i = code - 1u;
  return {py::reinterpret_borrow<py::object>(table.objects[i]), table.sizes[i], code, {}};
}

}  // namespace shmtensor::python
