#include "bindings/tensor/tensor.hpp"

#include <structmember.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bindings/storage/allocation.hpp"
#include "bindings/storage/device_support.hpp"
#include "bindings/support/arguments.hpp"
#include "bindings/support/errors.hpp"
#include "bindings/support/objects.hpp"
#include "bindings/tensor/buffer.hpp"
#include "bindings/tensor/indexing.hpp"
#include "bindings/tensor/operators.hpp"
#include "bindings/tensor/release.hpp"

namespace shmtensor::python {
namespace {

PyTypeObject* g_base = nullptr;           // _core.TensorBase
PyTypeObject* g_integer = nullptr;        // numpy.integer
std::atomic<PyObject*> g_class{nullptr};  // shmtensor.Tensor, which derives from it; set last

Tensor* as_tensor(PyObject* object) noexcept { return reinterpret_cast<Tensor*>(object); }

// --- making and destroying ---

void tensor_dealloc(PyObject* self) {
  Tensor* tensor = as_tensor(self);
  if (tensor->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  if (tensor->values != tensor->inline_values) std::free(tensor->values);
  std::free(tensor->element_strides.load());
  Py_XDECREF(tensor->storage.load(std::memory_order_relaxed));
  Py_XDECREF(tensor->kept);
  Py_XDECREF(tensor->dtype);
  free_object(self);
}

// Nothing is checked.
py::object make(py::object storage, PyObject* dtype, std::int32_t item_size,
                std::uint8_t dtype_code, std::span<const std::int64_t> shape,
                std::span<const std::int64_t> strides, std::int64_t offset, bool read_only) {
  // A process without tensors has not imported the module, which registers the class.
  PyObject* kind = g_class.load(std::memory_order_acquire);
  if (kind == nullptr) {
    py::module_::import("shmtensor.tensor");
    kind = g_class.load(std::memory_order_acquire);
  }
  py::object object = new_untracked(reinterpret_cast<PyTypeObject*>(kind));
  Tensor* tensor = as_tensor(object.ptr());
  tensor->values = tensor->inline_values;
  if (shape.size() > Tensor::kInline) {
    auto* values = static_cast<std::int64_t*>(std::malloc(2 * shape.size() * sizeof(std::int64_t)));
    if (values == nullptr) throw std::bad_alloc();
    tensor->values = values;
  }
  new (&tensor->storage) std::atomic<PyObject*>(storage.release().ptr());
  tensor->dtype = Py_NewRef(dtype);
  tensor->offset = offset;
  tensor->item_size = item_size;
  tensor->dims = static_cast<std::uint8_t>(shape.size());
  tensor->dtype_code = dtype_code;
  tensor->read_only = read_only;
  tensor->contiguous = is_contiguous(shape, strides, item_size);
  std::copy(shape.begin(), shape.end(), tensor->values);
  std::copy(strides.begin(), strides.end(), tensor->values + shape.size());
  return object;
}

PyObject* tensor_new(PyTypeObject*, PyObject* arguments, PyObject* keywords) {
  return guarded([&] {
    static const char* names[] = {"storage", "dtype",    "shape", "strides",
                                  "offset",  "readonly", nullptr};
    PyObject* storage = nullptr;
    PyObject* dtype = nullptr;
    PyObject* shape = nullptr;
    PyObject* strides = Py_None;
    PyObject* offset = nullptr;
    int read_only = 0;
    const bool complete = PyArg_ParseTupleAndKeywords(arguments, keywords, "OOO|OOp:Tensor",
                                                      const_cast<char**>(names), &storage, &dtype,
                                                      &shape, &strides, &offset, &read_only);
    if (storage != nullptr && !is_storage(storage)) {
      PyErr_Clear();  // of what is missing after it
      throw py::type_error("storage must be a shmtensor.Storage, not " + repr(storage) +
                           "; shmtensor.asarray makes a tensor of values");
    }
    if (!complete) throw py::error_already_set();
    Dims sizes = to_dims(shape, "shape");
    Dims steps = strides == Py_None ? Dims() : to_dims(strides, "strides");
    const Dtype type = to_dtype(py::reinterpret_borrow<py::object>(dtype));
    if (strides != Py_None) {
      if (steps.size() != sizes.size()) {
        throw py::value_error("strides " + to_text(steps) + " do not match shape " +
                              to_text(sizes));
      }
      steps.resize(steps.size() + type.inner.size());
      c_strides(type.inner, type.item_size, steps.data() + sizes.size());
    }
    append(sizes, type.inner);
    return new_tensor(py::reinterpret_borrow<py::object>(storage), type, sizes, steps,
                      offset == nullptr ? 0 : to_number(offset, "offset"), read_only != 0);
  });
}

// --- conversion ---

// An array of the same shape and strides, over the same addresses. If they are a device's, the host
// must not read the elements: the array serves NumPy's arithmetic of views.
py::object array_over(const Tensor& tensor, const py::object& storage) {
  const auto sizes = [](std::span<const std::int64_t> values) {
    return py::array::ShapeContainer(values.begin(), values.end());
  };
  py::array array(py::reinterpret_borrow<py::dtype>(tensor.dtype), sizes(tensor.shape()),
                  sizes(tensor.strides()), as_storage(storage)->backing().data + tensor.offset,
                  storage);
  if (tensor.read_only || as_storage(storage)->read_only()) {
    py::detail::array_proxy(array.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  }
  return array;
}

PyObject* layout(PyObject* self, PyObject*) {
  return guarded([&] {
    const Tensor& tensor = *as_tensor(self);
    return array_over(tensor, storage_of(tensor));
  });
}

PyObject* numpy(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    if (count != 0) throw py::type_error("numpy() takes no positional arguments");
    if (names != nullptr) {
      const auto [asked] = parse<1>("numpy", given, 0, names, {"private"}, 0);
      if (to_bool(asked, false)) {
        const py::object make = py::module_::import("shmtensor._copies").attr("private_array");
        return checked(PyObject_CallOneArg(make.ptr(), self));
      }
    }
    return to_numpy(*as_tensor(self));
  });
}

// --- properties ---

// A property, or a method without arguments, of a tensor that was not released.
template <auto kFunction, typename Unused>
PyObject* get(PyObject* self, Unused*) {
  return guarded([&] { return std::invoke(kFunction, unreleased(self)); });
}

py::object shape_of(const Tensor& tensor) { return to_tuple(tensor.shape()); }
py::object strides_of(const Tensor& tensor) { return to_tuple(tensor.strides()); }
PyObject* dtype_of(const Tensor& tensor) { return Py_NewRef(tensor.dtype); }
std::int64_t size_of(const Tensor& tensor) { return element_count(tensor.shape()); }
std::int64_t nbytes_of(const Tensor& tensor) { return size_of(tensor) * tensor.item_size; }
PyObject* get_readonly(PyObject* self, void*) {
  return guarded([&] {
    const Tensor& tensor = *as_tensor(self);
    const py::object storage = storage_of(tensor);
    return PyBool_FromLong(tensor.read_only || as_storage(storage)->read_only());
  });
}
PyObject* data_ptr(PyObject* self, PyObject*) {
  return guarded([&] {
    const py::object storage = storage_of(*as_tensor(self));
    expose(*as_storage(storage));
    return PyLong_FromVoidPtr(as_storage(storage)->backing().data + as_tensor(self)->offset);
  });
}

Py_ssize_t length(PyObject* self) {
  Py_ssize_t size = -1;
  guarded_status([&] {
    const Tensor& tensor = unreleased(self);
    if (tensor.dims == 0) throw py::type_error("len() of unsized object");
    size = static_cast<Py_ssize_t>(tensor.values[0]);
  });
  return size;
}

int refuse_shape(PyObject*, PyObject*, void*) {
  PyErr_SetString(PyExc_AttributeError, "the shape of a tensor cannot be set: use reshape");
  return -1;
}

PyGetSetDef g_properties[] = {
    {"shape", get<shape_of>, refuse_shape, "Sizes along each axis.", nullptr},
    {"strides", get<strides_of>, nullptr, "Bytes from one element to the next along each axis.",
     nullptr},
    {"dtype", get<dtype_of>, nullptr, "The elements' NumPy dtype.", nullptr},
    {"ndim", get<&Tensor::dims>, nullptr, "Number of axes.", nullptr},
    {"size", get<size_of>, nullptr, "Number of elements.", nullptr},
    {"itemsize", get<&Tensor::item_size>, nullptr, "Bytes of one element.", nullptr},
    {"nbytes", get<nbytes_of>, nullptr, "Bytes of all elements; strides do not matter.", nullptr},
    {"readonly", get_readonly, nullptr, "True if the tensor refuses writes.", nullptr},
    {"_released", get_released, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef g_methods[] = {
    {"numpy", method(numpy), METH_FASTCALL | METH_KEYWORDS,
     "numpy($self, /, *, private=False)\n--\n\n"
     "Return a NumPy array over the same memory, or a private one.\n\n"
     "Parameters\n"
     "----------\n"
     "private\n"
     "    False: nothing is copied. Writes to the array are writes to the tensor, in every\n"
     "    process that has it. The array is read-only if the tensor is.\n"
     "    True: the array is writable, and no tensor and no other process sees what is written\n"
     "    into it. Of a read-only tensor over shared memory, a page is copied when it is\n"
     "    written: another process should not write into that memory meanwhile, because the\n"
     "    array may have the old or the new elements. Any other tensor is copied, and so are\n"
     "    less than 64 KiB.\n\n"
     "Returns\n"
     "-------\n"
     "numpy.ndarray\n"
     "    It keeps the memory alive that it uses.\n\n"
     "Raises\n"
     "------\n"
     "TypeError\n"
     "    If the tensor is on a GPU.\n\n"
     "Examples\n"
     "--------\n"
     ">>> import shmtensor as st\n"
     ">>> weights = st.zeros(3).as_readonly()\n"
     ">>> mine = weights.numpy(private=True)\n"
     ">>> mine[0] = 5\n"
     ">>> weights.tolist()\n"
     "[0.0, 0.0, 0.0]"},
    {"_layout", layout, METH_NOARGS, nullptr},
    {"is_contiguous", get<&Tensor::contiguous>, METH_NOARGS,
     "is_contiguous()\n--\n\nReturn True if the elements are stored in C order without gaps."},
    {"storage", get<storage_of>, METH_NOARGS,
     "storage()\n--\n\nReturn the Storage that the tensor is a view of."},
    {"storage_offset", get<&Tensor::offset>, METH_NOARGS,
     "storage_offset()\n--\n\n"
     "Return the bytes from the beginning of the storage to the first element."},
    {"data_ptr", data_ptr, METH_NOARGS,
     "data_ptr()\n--\n\n"
     "Return the address of the first element in this process.\n\n"
     "Valid until the tensor is released or deleted."},
    {"release", release, METH_NOARGS,
     "release()\n--\n\n"
     "Release the memory, though other variables may refer to this object.\n\n"
     "The block is freed when the last object over it, in any process, is gone: views of the\n"
     "tensor and arrays made from it stay valid and keep it. Every later use of this object "
     "raises\n"
     "ValueError; another release does nothing. ``with tensor:`` releases at the end of the "
     "block."},
    {"__enter__", enter, METH_NOARGS, nullptr},
    {"__exit__", release, METH_VARARGS, nullptr},
    {"_keep_memory", keep_memory, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef g_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Tensor, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

// `device` is -1 for the host.
py::object new_shared_tensor(PyObject* shape, const py::object& dtype, bool zeroed, int device) {
  const Dtype type = to_dtype(dtype);
  Dims dims = to_dims(shape, "shape");
  append(dims, type.inner);
  const auto bytes = static_cast<std::uint64_t>(checked_bytes(dims, type.item_size));
  const py::object storage = device >= 0 ? device_support.allocate(bytes, device, zeroed)
                                         : new_shared_storage(bytes, zeroed);
  return new_tensor(storage, type, dims, {}, 0, false);
}

PyObject* empty(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([&] {
    if (count < 3 || count > 4) {
      throw py::type_error("empty takes a shape, a dtype, whether to zero and a device's number");
    }
    const long device = count == 4 ? PyLong_AsLong(arguments[3]) : -1;
    if (device == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
    return new_shared_tensor(arguments[0], py::reinterpret_borrow<py::object>(arguments[1]),
                             arguments[2] == Py_True, static_cast<int>(device));
  });
}

PyMethodDef g_tensor_functions[] = {
    {"empty", method(empty), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

py::object new_tensor(const py::object& storage, const Dtype& dtype,
                      std::span<const std::int64_t> shape, std::span<const std::int64_t> strides,
                      std::int64_t offset, bool read_only) {
  checked_bytes(shape, dtype.item_size);
  std::array<std::int64_t, kMaxDims> made;
  if (strides.empty()) {
    strides = std::span(made).first(shape.size());
    c_strides(shape, dtype.item_size, made.data());
  }
  const std::uint64_t limit = as_storage(storage)->size;
  if (!inside(shape, strides, offset, dtype.item_size, limit)) {
    throw py::value_error("a tensor of shape " + to_text(shape) + ", strides " + to_text(strides) +
                          " and offset " + std::to_string(offset) +
                          " does not fit into a storage of " + std::to_string(limit) + " bytes");
  }
  return make(storage, dtype.object.ptr(), dtype.item_size, dtype.code, shape, strides, offset,
              read_only);
}

py::object new_view(const Tensor& base, std::span<const std::int64_t> shape,
                    std::span<const std::int64_t> strides, std::int64_t offset) {
  return make(storage_of(base), base.dtype, base.item_size, base.dtype_code, shape, strides,
              base.offset + offset, base.read_only);
}

py::object to_numpy(const Tensor& tensor) {
  const py::object storage = storage_of(tensor);
  if (const int device = as_storage(storage)->device(); device >= 0) {
    throw py::type_error("the tensor is on cuda:" + std::to_string(device) +
                         ", where NumPy cannot reach it: use cpu() for a copy in host memory, or "
                         "cupy() to compute on the GPU");
  }
  return array_over(tensor, storage);
}

bool is_tensor(PyObject* object) noexcept { return PyObject_TypeCheck(object, g_base) != 0; }

Tensor& to_tensor(PyObject* object) {
  if (!is_tensor(object)) throw py::type_error("not a tensor");
  return *as_tensor(object);
}

bool is_tensor_class(PyObject* kind) noexcept {
  return PyType_Check(kind) != 0 &&
         PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(kind), g_base) != 0;
}

bool is_numpy_integer(PyObject* object) noexcept {
  return PyObject_TypeCheck(object, g_integer) != 0;
}

void add_tensor(py::module_& module) {
  std::vector<PyType_Slot> slots = {
      {Py_tp_new, slot(tensor_new)},
      {Py_tp_dealloc, slot(tensor_dealloc)},
      {Py_tp_getset, g_properties},
      {Py_tp_methods, g_methods},
      {Py_tp_members, g_members},
      {Py_bf_getbuffer, slot(get_buffer)},
      {Py_bf_releasebuffer, slot(release_buffer)},
      {Py_sq_length, slot(length)},
      {Py_sq_item, slot(get_element)},
      {Py_mp_length, slot(length)},
      {Py_mp_subscript, slot(get_item)},
      {Py_mp_ass_subscript, slot(set_item)},
      {Py_tp_iter, slot(iterate)},
  };
  for (const PyType_Slot& operation : operator_slots()) slots.push_back(operation);
  slots.push_back({0, nullptr});
  // Not tracked by the garbage collector, whose visits took a third of the time of a list of
  // 100,000 tensors.
  g_base = add_type(module, "shmtensor._core.TensorBase", sizeof(Tensor),
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots.data());
  if (PyModule_AddFunctions(module.ptr(), g_tensor_functions) != 0) throw py::error_already_set();
  module.def("register_tensor_class",
             [](const py::object& tensor, const py::object& ndarray, const py::object& integer) {
               set_array_type(reinterpret_cast<PyTypeObject*>(py::object(ndarray).release().ptr()));
               g_integer = reinterpret_cast<PyTypeObject*>(py::object(integer).release().ptr());
               // While a thread reads NumPy's interface at first use, a fork would stop it forever
               // in the child.
               static_cast<void>(py::detail::npy_api::get());
               // Without a GIL, another thread may make a tensor as soon as it reads this.
               g_class.store(py::object(tensor).release().ptr(), std::memory_order_release);
             });
}

}  // namespace shmtensor::python
