#include "bindings/cuda/dlpack_export.hpp"

#include <memory>

#include "bindings/cuda/dlpack.hpp"
#include "bindings/storage/storage.hpp"
#include "bindings/support/gil.hpp"
#include "bindings/tensor/release.hpp"
#include "bindings/tensor/tensor.hpp"

namespace shmtensor::python {
namespace {

using dlpack::Plain;
using dlpack::Versioned;

/// The struct, the numbers that it points to, and the tensor that keeps the memory alive.
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
py::object pack(const Tensor& tensor, std::uint8_t code, const py::object& owner) {
  auto package = std::make_unique<Package<Managed>>();
  Managed& managed = package->managed;
  managed.context = package.get();
  managed.deleter = &Package<Managed>::destroy;
  const Storage& storage = *as_storage(owner);
  std::int64_t count = 1;
  for (std::size_t i = 0; i < tensor.dims; ++i) {
    package->numbers[i] = tensor.shape()[i];
    if (tensor.strides()[i] % tensor.item_size != 0) {
      throw py::buffer_error(
          "DLPack counts strides in elements; these strides are not a multiple of the item size");
    }
    package->numbers[tensor.dims + i] = tensor.strides()[i] / tensor.item_size;
    count *= tensor.shape()[i];
  }
  managed.tensor = {.data = count != 0 ? storage.backing().data + tensor.offset : nullptr,
                    .device = device_of(storage),
                    .dims = tensor.dims,
                    .dtype = {code, static_cast<std::uint8_t>(tensor.item_size * 8), 1},
                    .shape = package->numbers,
                    .strides = package->numbers + tensor.dims,
                    .byte_offset = 0};
  if constexpr (std::is_same_v<Managed, Versioned>) {
    managed.version = {1, 0};
    managed.flags = tensor.read_only || storage.read_only() ? dlpack::kReadOnly : 0;
  }
  py::object capsule =
      checked(PyCapsule_New(&managed, dlpack::name_of(&managed), [](PyObject* object) {
        // A consumer renames the capsule when it takes over the tensor.
        const char* name = dlpack::name_of(static_cast<Managed*>(nullptr));
        if (!PyCapsule_IsValid(object, name)) return;
        auto* unused = static_cast<Managed*>(PyCapsule_GetPointer(object, name));
        unused->deleter(unused);
      }));
  package->owner = Py_NewRef(owner.ptr());
  package.release();
  return capsule;
}

py::object to_dlpack(const py::object& object, int code, bool versioned) {
  if (!is_tensor(object.ptr())) throw py::type_error("not a tensor");
  const Tensor& tensor = *reinterpret_cast<Tensor*>(object.ptr());
  const py::object owner = storage_of(tensor);
  Storage& storage = *as_storage(owner);
  if (!versioned && (tensor.read_only || storage.read_only())) {
    throw py::buffer_error(
        "a read-only tensor needs a consumer of DLPack 1.0 (max_version=(1, 0))");
  }
  storage.exposed.store(true);
  const auto type = static_cast<std::uint8_t>(code);
  return versioned ? pack<Versioned>(tensor, type, owner) : pack<Plain>(tensor, type, owner);
}

}  // namespace

void add_dlpack_export(py::module_& module) { module.def("to_dlpack", &to_dlpack); }

}  // namespace shmtensor::python
