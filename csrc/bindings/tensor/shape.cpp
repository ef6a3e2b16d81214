#include "bindings/tensor/shape.hpp"

#include <algorithm>
#include <limits>
#include <string_view>

namespace shmtensor::python {
namespace {

constexpr std::int64_t kMaxSize = std::numeric_limits<std::int64_t>::max();

// The elements of a sequence; null for anything else, an array of no dimension among it. A copy:
// another thread, or the __index__ of an element, may change a list meanwhile.
py::object to_elements(PyObject* value) {
  if (PyLong_Check(value) || PySequence_Check(value) == 0) return {};
  auto elements = py::reinterpret_steal<py::object>(PySequence_Tuple(value));
  if (!elements) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw py::error_already_set();
    PyErr_Clear();
  }
  return elements;
}

// NumPy's own is an index in older versions, with a warning.
bool is_truth_value(PyObject* value) noexcept {
  const std::string_view name = Py_TYPE(value)->tp_name;
  return PyBool_Check(value) || name == "numpy.bool" || name == "numpy.bool_";
}

}  // namespace

std::string repr(PyObject* value) { return py::repr(value).cast<std::string>(); }

py::object to_tuple(std::span<const std::int64_t> values) {
  py::object tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (std::size_t i = 0; i < values.size(); ++i) {
    PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i),
                     checked(PyLong_FromLongLong(values[i])).release().ptr());
  }
  return tuple;
}

std::string to_text(std::span<const std::int64_t> values) {
  return py::str(to_tuple(values)).cast<std::string>();
}

std::int64_t to_number(PyObject* value, const char* name) {
  const auto refuse = [&] {
    return py::type_error(std::string(name) + " takes integers, not " + repr(value));
  };
  if (is_truth_value(value)) throw refuse();
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(value));
  if (!index) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw py::error_already_set();
    PyErr_Clear();
    throw refuse();
  }
  int overflow = 0;
  const std::int64_t number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow != 0) {
    throw py::value_error(std::string(name) + ": " + repr(value) + " does not fit into 64 bits");
  }
  return number;
}

Dims to_dims(PyObject* value, const char* name) {
  Dims dims;
  const py::object elements = to_elements(value);
  if (!elements) {
    dims.push_back(to_number(value, name));
    return dims;
  }
  const Py_ssize_t count = PyTuple_GET_SIZE(elements.ptr());
  dims.reserve(static_cast<std::size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    dims.push_back(to_number(PyTuple_GET_ITEM(elements.ptr(), i), name));
  }
  return dims;
}

std::int64_t element_count(std::span<const std::int64_t> shape) noexcept {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

std::int64_t checked_bytes(std::span<const std::int64_t> shape, std::int64_t item_size) {
  if (shape.size() > kMaxDims) {
    throw py::value_error("a tensor has at most " + std::to_string(kMaxDims) + " dimensions, not " +
                          std::to_string(shape.size()));
  }
  std::int64_t bytes = item_size;
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) throw py::value_error("negative dimensions are not allowed: " + to_text(shape));
    empty = empty || size == 0;
  }
  for (const std::int64_t size : shape) {
    if (size != 0 && bytes > kMaxSize / size) {
      throw py::value_error("the array is too big: shape " + to_text(shape) + " of " +
                            std::to_string(item_size) + " bytes each");
    }
    bytes *= std::max<std::int64_t>(size, 1);
  }
  return empty ? 0 : bytes;
}

void c_strides(std::span<const std::int64_t> shape, std::int64_t item_size,
               std::int64_t* strides) noexcept {
  std::int64_t stride = item_size;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<std::int64_t>(shape[i], 1);
  }
}

bool is_contiguous(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides,
                   std::int64_t item_size) noexcept {
  std::int64_t expected = item_size;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

bool inside(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides,
            std::int64_t offset, std::int64_t item_size, std::uint64_t limit) noexcept {
  using Wide = __int128;
  Wide low = offset;
  Wide high = Wide{offset} + item_size;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return offset >= 0 && static_cast<std::uint64_t>(offset) <= limit;
    const Wide reach = Wide{strides[i]} * (shape[i] - 1);
    (reach < 0 ? low : high) += reach;
  }
  return low >= 0 && high <= Wide{limit};
}

}  // namespace shmtensor::python
