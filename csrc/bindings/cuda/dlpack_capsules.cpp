#include "bindings/cuda/dlpack_capsules.hpp"

#include <algorithm>
#include <memory>
#include <string>

#include "bindings/cuda/dlpack.hpp"
#include "bindings/storage/device_support.hpp"
#include "bindings/support/gil.hpp"
#include "bindings/tensor/release.hpp"
#include "bindings/tensor/tensor.hpp"

namespace shmtensor::python {
namespace {

using dlpack::DlTensor;
using dlpack::Plain;
using dlpack::Versioned;

// --- export ---

void write_element_strides(const Tensor& tensor, std::int64_t* out) {
  for (const std::int64_t stride : tensor.strides()) {
    if (stride % tensor.item_size != 0) {
      throw py::buffer_error(
          "DLPack counts strides in elements; these strides are not a multiple of the item size");
    }
    *out++ = stride / tensor.item_size;
  }
}

/// The struct, the numbers that it points to, and the storage that keeps the memory alive.
template <typename Managed>
struct Package {
  Managed managed;
  std::int64_t numbers[2 * kMaxDims];
  PyObject* owner;

  // Called by any thread, perhaps after the interpreter's end: the process's end frees the memory
  // then.
  static void destroy(Managed* managed) {
    auto* package = static_cast<Package*>(managed->context);
    if (Py_IsInitialized()) {
      const GilAcquire acquire;
      Py_DECREF(package->owner);
    }
    delete package;
  }
};

dlpack::Device device_of(const Storage& storage) noexcept {
  if (storage.device() < 0) return {dlpack::kHost, 0};
  return {dlpack::kCuda, storage.device()};
}

template <typename Managed>
std::unique_ptr<Managed, void (*)(Managed*)> pack(const Tensor& tensor, std::uint8_t code,
                                                  const py::object& owner) {
  auto package = std::make_unique<Package<Managed>>();
  Managed& managed = package->managed;
  managed.context = package.get();
  managed.deleter = &Package<Managed>::destroy;
  std::ranges::copy(tensor.shape(), package->numbers);
  write_element_strides(tensor, package->numbers + tensor.dims);
  managed.tensor =
      describe(tensor, *as_storage(owner), code, package->numbers, package->numbers + tensor.dims);
  if constexpr (std::is_same_v<Managed, Versioned>) {
    managed.version = {1, 0};
    managed.flags = tensor.read_only || as_storage(owner)->read_only() ? dlpack::kReadOnly : 0;
  }
  package->owner = Py_NewRef(owner.ptr());
  return {&package.release()->managed, managed.deleter};
}

template <typename Managed>
py::object pack_in_capsule(const Tensor& tensor, std::uint8_t code, const py::object& owner) {
  auto managed = pack<Managed>(tensor, code, owner);
  py::object capsule = in_capsule(managed.get());
  static_cast<void>(managed.release());
  return capsule;
}

py::object to_dlpack(const py::object& object, int code, bool versioned) {
  const Tensor& tensor = to_tensor(object.ptr());
  const py::object owner = storage_of(tensor);
  Storage& storage = *as_storage(owner);
  if (!versioned && (tensor.read_only || storage.read_only())) {
    throw py::buffer_error(
        "a read-only tensor needs a consumer of DLPack 1.0 (max_version=(1, 0))");
  }
  expose(storage);
  const auto type = static_cast<std::uint8_t>(code);
  return versioned ? pack_in_capsule<Versioned>(tensor, type, owner)
                   : pack_in_capsule<Plain>(tensor, type, owner);
}

// --- import ---

// Takes over the tensor in the capsule: the new capsule releases it with its last reference. Null
// if the capsule has another name. Of several threads, one takes over.
template <typename Managed>
py::object take_over(const py::object& capsule, const char* used_name) {
  const char* name = dlpack::name_of(static_cast<Managed*>(nullptr));
  Managed* managed = nullptr;
  {
    const py::scoped_critical_section guard(capsule);
    if (PyCapsule_IsValid(capsule.ptr(), name) == 0) return {};
    managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), name));
    if (PyCapsule_SetName(capsule.ptr(), used_name) != 0) throw py::error_already_set();
  }
  const auto release = [](PyObject* object) {
    auto* taken = static_cast<Managed*>(PyCapsule_GetPointer(object, nullptr));
    if (taken->deleter != nullptr) taken->deleter(taken);
  };
  return checked(PyCapsule_New(managed, nullptr, release));  // no memory: it is never released
}

template <typename Managed>
const Managed* managed_in(const py::object& owner) {
  return static_cast<const Managed*>(PyCapsule_GetPointer(owner.ptr(), nullptr));
}

py::tuple describe_array(const DlTensor& tensor, bool read_only, const py::object& owner) {
  if (tensor.dims < 0 || static_cast<std::size_t>(tensor.dims) > kMaxDims) {
    throw py::buffer_error("cannot use an array of " + std::to_string(tensor.dims) +
                           " dimensions; there may be " + std::to_string(kMaxDims));
  }
  if (tensor.dtype.lanes != 1) throw py::buffer_error("DLPack's vector types are not supported");
  const auto dims = static_cast<std::size_t>(tensor.dims);
  const py::object strides =
      tensor.strides != nullptr ? to_tuple({tensor.strides, dims}) : py::none();
  return py::make_tuple(owner, reinterpret_cast<std::uint64_t>(tensor.data) + tensor.byte_offset,
                        read_only, to_tuple({tensor.shape, dims}), strides,
                        py::make_tuple(tensor.dtype.code, tensor.dtype.bits));
}

// (object that keeps the memory alive, address, read-only, shape, strides in elements or None,
// (code, bits) of the dtype).
py::tuple from_dlpack(const py::object& capsule) {
  if (const auto owner = take_over<Versioned>(capsule, "used_dltensor_versioned")) {
    const auto& managed = *managed_in<Versioned>(owner);
    if (managed.version.major != 1) {
      throw py::buffer_error("DLPack " + std::to_string(managed.version.major) +
                             " is not known; 0 and 1 are");
    }
    return describe_array(managed.tensor, (managed.flags & dlpack::kReadOnly) != 0, owner);
  }
  if (const auto owner = take_over<Plain>(capsule, "used_dltensor")) {
    return describe_array(managed_in<Plain>(owner)->tensor, false, owner);
  }
  throw py::type_error(
      "__dlpack__ did not return a DLPack capsule, or returned one that was used before");
}

}  // namespace

std::int64_t* element_strides_of(Tensor& tensor) {
  if (std::int64_t* known = tensor.element_strides.load(std::memory_order_acquire)) return known;
  auto* made = static_cast<std::int64_t*>(std::malloc((tensor.dims + 1u) * sizeof(std::int64_t)));
  if (made == nullptr) throw std::bad_alloc();
  try {
    write_element_strides(tensor, made);
  } catch (...) {
    std::free(made);
    throw;
  }
  std::int64_t* known = nullptr;
  if (tensor.element_strides.compare_exchange_strong(known, made)) return made;
  std::free(made);  // another thread was quicker
  return known;
}

DlTensor describe(const Tensor& tensor, const Storage& storage, std::uint8_t code,
                  std::int64_t* shape, std::int64_t* strides) {
  const bool empty = element_count(tensor.shape()) == 0;
  return {.data = empty ? nullptr : storage.backing().data + tensor.offset,
          .device = device_of(storage),
          .dims = tensor.dims,
          .dtype = {code, static_cast<std::uint8_t>(tensor.item_size * 8), 1},
          .shape = shape,
          .strides = strides,
          .byte_offset = 0};
}

Versioned* export_versioned(const Tensor& tensor, std::uint8_t code) {
  const py::object owner = storage_of(tensor);
  expose(*as_storage(owner));
  return pack<Versioned>(tensor, code, owner).release();
}

PyObject* exported_storage(const Versioned& managed) noexcept {
  if (managed.deleter != &Package<Versioned>::destroy) return nullptr;
  return static_cast<const Package<Versioned>*>(managed.context)->owner;
}

void add_dlpack_capsules(py::module_& module) {
  module.def("to_dlpack", &to_dlpack);
  module.def("from_dlpack", &from_dlpack);
}

}  // namespace shmtensor::python
