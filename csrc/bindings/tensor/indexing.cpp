#include "bindings/tensor/indexing.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "bindings/support/errors.hpp"
#include "bindings/tensor/release.hpp"
#include "bindings/tensor/tensor.hpp"

namespace shmtensor::python {
namespace {

// NumPy's of any version; a result of more goes to NumPy, which has the error text.
constexpr std::size_t kMostAxes = 32;

PyObject* const* items(PyObject* tuple) noexcept {
  return reinterpret_cast<PyTupleObject*>(tuple)->ob_item;
}

// The view that an index selects, computed as by NumPy: strides of axes with one element or none
// included.
class View {
 public:
  explicit View(const Tensor& base) noexcept : base_(base) {}

  // Returns false if NumPy must decide: another kind of index, or an error.
  bool add_all(PyObject* key) noexcept {
    PyObject* const* parts = &key;
    std::size_t count = 1;
    if (PyTuple_Check(key)) {
      parts = items(key);
      count = static_cast<std::size_t>(PyTuple_GET_SIZE(key));
    }
    std::size_t consumed = 0;
    for (std::size_t i = 0; i < count; ++i)
      consumed += parts[i] != Py_None && parts[i] != Py_Ellipsis;
    if (consumed > base_.dims) return false;
    bool filled = false;
    for (std::size_t i = 0; i < count; ++i) {
      if (parts[i] == Py_Ellipsis) {
        if (std::exchange(filled, true)) return false;
        if (!add_axes(base_.dims - consumed)) return false;
      } else if (!add(parts[i])) {
        return false;
      }
    }
    return add_axes(base_.dims - axis_);
  }

  [[nodiscard]] py::object make() const {
    const std::span shape(shape_.data(), axes_);
    const bool empty = std::ranges::find(shape, 0) != shape.end();
    return new_view(base_, shape, {strides_.data(), axes_}, empty ? 0 : offset_);
  }

 private:
  bool add(PyObject* part) noexcept {
    if (part == Py_None) return add_axis(1, 0);
    if (PySlice_Check(part)) return add_slice(part);
    const std::optional<std::int64_t> index = to_integer(part);
    if (!index) return false;
    const std::int64_t size = base_.shape()[axis_];
    if (*index < -size || *index >= size) return false;
    offset_ += base_.strides()[axis_++] * (*index < 0 ? *index + size : *index);
    return true;
  }

  bool add_slice(PyObject* slice) noexcept {
    Py_ssize_t start = 0;
    Py_ssize_t stop = 0;
    Py_ssize_t step = 1;
    if (PySlice_Unpack(slice, &start, &stop, &step) != 0) {
      PyErr_Clear();
      return false;
    }
    const std::int64_t stride = base_.strides()[axis_];
    const Py_ssize_t size = PySlice_AdjustIndices(base_.shape()[axis_++], &start, &stop, step);
    if (size <= 0) return add_axis(0, stride);
    offset_ += stride * start;
    // NumPy's wraps, too; where it does, the axis has one element.
    return add_axis(size, static_cast<std::int64_t>(static_cast<std::uint64_t>(stride) *
                                                    static_cast<std::uint64_t>(step)));
  }

  bool add_axes(std::size_t count) noexcept {
    for (; count > 0; --count, ++axis_) {
      if (!add_axis(base_.shape()[axis_], base_.strides()[axis_])) return false;
    }
    return true;
  }

  bool add_axis(std::int64_t size, std::int64_t stride) noexcept {
    if (axes_ == kMostAxes) return false;
    shape_[axes_] = size;
    strides_[axes_++] = stride;
    return true;
  }

  const Tensor& base_;
  std::array<std::int64_t, kMostAxes> shape_;
  std::array<std::int64_t, kMostAxes> strides_;
  std::size_t axis_ = 0;  // the next one of the base
  std::size_t axes_ = 0;  // of the view
  std::int64_t offset_ = 0;
};

// Return true if NumPy's array takes the key as it is: no tensor can be in it.
bool is_plain(PyObject* part) noexcept {
  return part == Py_None || part == Py_Ellipsis || PyLong_CheckExact(part) != 0 ||
         PySlice_Check(part);
}

bool is_plain_key(PyObject* key) noexcept {
  if (PyTuple_CheckExact(key) == 0) return is_plain(key);
  return std::all_of(items(key), items(key) + PyTuple_GET_SIZE(key), is_plain);
}

}  // namespace

std::optional<std::int64_t> to_integer(PyObject* part) noexcept {
  PyObject* number = nullptr;
  if (PyLong_Check(part) != 0 && PyBool_Check(part) == 0) {
    number = Py_NewRef(part);
  } else if (is_numpy_integer(part)) {
    number = PyNumber_Index(part);
  }
  if (number == nullptr) {
    PyErr_Clear();
    return {};
  }
  int overflow = 0;
  const std::int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow);
  Py_DECREF(number);
  return overflow == 0 ? std::optional(value) : std::nullopt;
}

PyObject* get_item(PyObject* self, PyObject* key) noexcept {
  return guarded([&] {
    View view(*reinterpret_cast<Tensor*>(self));
    if (view.add_all(key)) return view.make();
    return checked(PyObject_CallMethod(self, "_select", "(O)", key));
  });
}

int set_item(PyObject* self, PyObject* key, PyObject* value) noexcept {
  if (value == nullptr) {
    PyErr_SetString(PyExc_TypeError, "a tensor's elements cannot be deleted");
    return -1;
  }
  return guarded_status([&] {
    const Tensor& tensor = *reinterpret_cast<Tensor*>(self);
    const bool on_host = as_storage(storage_of(tensor))->device() < 0;
    if (on_host && is_plain_key(key) && !is_tensor(value)) {
      const py::object array = to_numpy(tensor);
      if (PyObject_SetItem(array.ptr(), key, value) != 0) throw py::error_already_set();
    } else {
      checked(PyObject_CallMethod(self, "_assign", "(OO)", key, value));
    }
  });
}

PyObject* get_element(PyObject* self, Py_ssize_t index) noexcept {
  return guarded([&] {
    // Python has added the length to a negative index.
    if (index < 0) throw py::index_error("index out of range");
    const py::object key = checked(PyLong_FromSsize_t(index));
    return get_item(self, key.ptr());
  });
}

PyObject* iterate(PyObject* self) noexcept {
  return PyObject_Size(self) < 0 ? nullptr : PySeqIter_New(self);
}

}  // namespace shmtensor::python
