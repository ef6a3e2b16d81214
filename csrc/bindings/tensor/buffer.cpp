#include "bindings/tensor/buffer.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "bindings/support/errors.hpp"
#include "bindings/tensor/release.hpp"
#include "bindings/tensor/tensor.hpp"

namespace shmtensor::python {
namespace {

// Formats of the dtypes with a code, in the order of the codes.
constexpr std::array kFormats = {"?", "b", "B", "h", "H",  "i",  "I", "l",
                                 "L", "e", "f", "d", "Zf", "Zd", "g", "Zg"};

// Return true if NumPy reads the array's own dtype out of a buffer: not if the dtype is a void
// without fields, has titles, or has fields and is not aligned. Throws NumPy's error if there is no
// format.
bool survives_buffer(const py::object& array) {
  const py::object view = checked(PyMemoryView_FromObject(array.ptr()));
  try {
    const py::object seen = py::module_::import("numpy").attr("asarray")(view);
    return seen.attr("dtype").equal(array.attr("dtype"));
  } catch (const py::error_already_set&) {
    return false;
  }
}

// Return true if the strides are those that NumPy's buffer has for an array in C order, also along
// an axis with at most one element.
bool has_c_strides(const Tensor& tensor) noexcept {
  std::int64_t stride = tensor.item_size;
  for (std::size_t i = tensor.dims; i-- > 0;) {
    if (tensor.strides()[i] != stride) return false;
    stride *= tensor.shape()[i];
  }
  return true;
}

// Return true if the shape and strides of the tensor are those of NumPy's buffer, which has its own
// strides where an axis has at most one element, and another format for data that is not aligned.
bool is_usual(const Tensor& tensor, const std::byte* data) noexcept {
  const auto aligned = [&](std::int64_t value) { return value % tensor.item_size == 0; };
  if (!aligned(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data)))) return false;
  if (has_c_strides(tensor)) return true;
  return std::ranges::all_of(tensor.strides(), aligned) &&
         std::ranges::all_of(tensor.shape(), [](std::int64_t size) { return size > 1; });
}

// What `memoryview` and `numpy.asarray` ask for, without NumPy's help. Returns false for other
// requests and other tensors.
bool fill_quickly(PyObject* self, Py_buffer* view, int flags) {
  const Tensor& tensor = *reinterpret_cast<Tensor*>(self);
  if ((flags & ~PyBUF_WRITABLE) != PyBUF_FULL_RO || tensor.dtype_code == kNoCode) return false;
  py::object storage = storage_of(tensor);
  if (as_storage(storage)->device() >= 0) return false;
  const bool read_only = tensor.read_only || as_storage(storage)->read_only();
  if ((flags & PyBUF_WRITABLE) != 0 && read_only) return false;
  std::byte* data = as_storage(storage)->backing().data + tensor.offset;
  if (!is_usual(tensor, data)) return false;
  static_assert(sizeof(Py_ssize_t) == sizeof *tensor.values);
  auto* values = reinterpret_cast<Py_ssize_t*>(tensor.values);  // they do not change
  *view = {.buf = data,
           .obj = Py_NewRef(self),
           .len = static_cast<Py_ssize_t>(element_count(tensor.shape()) * tensor.item_size),
           .itemsize = tensor.item_size,
           .readonly = read_only ? 1 : 0,
           .ndim = tensor.dims,
           .format = const_cast<char*>(kFormats[tensor.dtype_code - 1u]),
           .shape = tensor.dims != 0 ? values : nullptr,
           .strides = tensor.dims != 0 ? values + tensor.dims : nullptr,
           .suboffsets = nullptr,
           .internal = storage.release().ptr()};  // the tensor may be released before the buffer
  return true;
}

}  // namespace

// If `fill_quickly` does not serve a request, NumPy does: with its format, checks and errors. For a
// dtype that a buffer cannot describe, the request is refused, because NumPy's own functions ask
// for a buffer first: after the refusal, they read the dtype from `__array_interface__`.
int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  view->obj = nullptr;
  return guarded_status([&] {
    if (fill_quickly(self, view, flags)) return;
    auto& tensor = *reinterpret_cast<Tensor*>(self);
    const py::object array = to_numpy(tensor);
    if (tensor.dtype_code == kNoCode && (flags & PyBUF_FORMAT) != 0 && !survives_buffer(array)) {
      throw py::buffer_error("a buffer's format cannot describe dtype " +
                             py::str(tensor.dtype).cast<std::string>() + "; use numpy()");
    }
    // `numpy.ndarray(buffer=tensor)` asks so, ends the buffer immediately, and keeps the tensor
    // alone.
    if ((flags & ~PyBUF_WRITABLE) == PyBUF_ANY_CONTIGUOUS) keep_until_end(tensor);
    if (PyObject_GetBuffer(array.ptr(), view, flags) != 0) throw py::error_already_set();
  });
}

void release_buffer(PyObject*, Py_buffer* view) noexcept {
  Py_DECREF(static_cast<PyObject*>(view->internal));
}

}  // namespace shmtensor::python
