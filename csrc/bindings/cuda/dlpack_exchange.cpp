#include "bindings/cuda/dlpack_exchange.hpp"

#include <array>
#include <atomic>
#include <span>
#include <string>

#include "bindings/cuda/dlpack.hpp"
#include "bindings/cuda/dlpack_capsules.hpp"
#include "bindings/storage/device_support.hpp"
#include "bindings/support/errors.hpp"
#include "bindings/support/gil.hpp"
#include "bindings/tensor/release.hpp"
#include "bindings/tensor/tensor.hpp"

namespace shmtensor::python {
namespace {

using dlpack::DlTensor;
using dlpack::ExchangeApi;
using dlpack::Versioned;

/// A function of the Python module with the parts that are not worth C++.
py::object function(const char* name) {
  return py::module_::import("shmtensor._exchange").attr(name);
}

/// DLPack's code of a tensor's dtype. Throws BufferError if it has none.
std::uint8_t type_code(const Tensor& tensor) {
  static std::array<std::atomic<std::int16_t>, 256>
      known{};  // of dtypes with a code here, plus one
  const std::int16_t found = known[tensor.dtype_code].load(std::memory_order_relaxed);
  if (found != 0) return static_cast<std::uint8_t>(found - 1);
  const py::handle dtype(tensor.dtype);
  const auto code = function("code_of")(dtype, tensor.item_size).cast<std::uint8_t>();
  if (tensor.dtype_code != kNoCode)
    known[tensor.dtype_code].store(static_cast<std::int16_t>(code + 1));
  return code;
}

int from_object(void* object, Versioned** out) {
  return guarded_status([&] {
    const Tensor& tensor = to_tensor(static_cast<PyObject*>(object));
    *out = export_versioned(tensor, type_code(tensor));
  });
}

int borrow_from_object(void* object, DlTensor* out) {
  return guarded_status([&] {
    Tensor& tensor = to_tensor(static_cast<PyObject*>(object));
    const py::object storage = storage_of(tensor);
    if (tensor.read_only || as_storage(storage)->read_only()) {
      throw py::buffer_error(
          "the consumer takes tensors without a flag for read-only memory, and a write to this one "
          "would end the process; pass a copy (clone)");
    }
    expose(*as_storage(storage));
    keep_until_end(tensor);
    *out = describe(tensor, *as_storage(storage), type_code(tensor), tensor.values,
                    element_strides_of(tensor));
  });
}

// A tensor as one of this library was exported.
py::object tensor_over(PyObject* storage, const Versioned& managed) {
  const DlTensor& view = managed.tensor;
  const auto dims = static_cast<std::size_t>(view.dims);
  const py::object dtype = function("dtype_of")(view.dtype.code, view.dtype.bits);
  const Dtype type = to_dtype(dtype);
  Dims strides(view.strides, view.strides + dims);
  for (std::int64_t& stride : strides) stride *= type.item_size;
  const py::object owner = py::reinterpret_borrow<py::object>(storage);
  const auto* const data = static_cast<const std::byte*>(view.data);
  return new_tensor(owner, type, {view.shape, dims}, strides,
                    data == nullptr ? 0 : data - as_storage(owner)->backing().data,
                    (managed.flags & dlpack::kReadOnly) != 0);
}

int to_object(Versioned* managed, void** out) {
  return guarded_status([&] {
    if (PyObject* const storage = exported_storage(*managed)) {
      *out = tensor_over(storage, *managed).release().ptr();
      managed->deleter(managed);
      return;
    }
    const dlpack::Device device = managed->tensor.device;
    const py::object capsule = in_capsule(managed);
    *out = function("adopt")(capsule, py::make_tuple(device.type, device.number)).release().ptr();
  });
}

void make(const DlTensor& prototype, Versioned** out) {
  if (prototype.dtype.lanes != 1) throw py::buffer_error("DLPack's vector types are not supported");
  const std::span shape(prototype.shape, static_cast<std::size_t>(prototype.dims));
  const py::object tensor =
      function("allocate")(to_tuple(shape), prototype.dtype.code, prototype.dtype.bits,
                           py::make_tuple(prototype.device.type, prototype.device.number));
  *out = export_versioned(to_tensor(tensor.ptr()), prototype.dtype.code);
}

// Called with or without the GIL.
int allocate(DlTensor* prototype, Versioned** out, void* context, ExchangeApi::SetError set_error) {
  const GilAcquire acquire;
  if (guarded_status([&] { make(*prototype, out); }) == 0) return 0;
  std::string kind = "RuntimeError";
  std::string message = "out of memory";  // short enough for the strings themselves
  try {
    const py::error_already_set error;
    kind = error.type().attr("__name__").cast<std::string>();
    message = py::str(error.value()).cast<std::string>();
  } catch (const std::exception&) {
    PyErr_Clear();  // the texts above remain
  }
  set_error(context, kind.c_str(), message.c_str());
  return -1;
}

// The default stream, on which a tensor can be used without waiting.
int current_stream(std::int32_t, std::int32_t, void** out) {
  *out = nullptr;
  return 0;
}

constinit ExchangeApi g_api = {
    .version = {1, 3},
    .previous = nullptr,
    .allocate = allocate,
    .from_object = from_object,
    .to_object = to_object,
    .borrow_from_object = borrow_from_object,
    .current_stream = current_stream,
};

}  // namespace

void add_dlpack_exchange(py::module_& module) {
  module.add_object("dlpack_exchange_api",
                    checked(PyCapsule_New(&g_api, "dlpack_exchange_api", nullptr)));
}

}  // namespace shmtensor::python
