// Tensors exported through DLPack: as capsules, for device memory (on the host NumPy makes them),
// and as structures for other extensions. Device memory of other libraries, imported from capsules.
#pragma once

#include <cstdint>

#include "bindings/cuda/dlpack.hpp"
#include "bindings/support/errors.hpp"
#include "bindings/support/python.hpp"
#include "bindings/tensor/tensor.hpp"

namespace shmtensor::python {

/// DLPack's description of a tensor over the storage, whose dtype has this code there. It refers to
/// the two arrays; the strides are in elements.
[[nodiscard]] dlpack::DlTensor describe(const Tensor& tensor, const Storage& storage,
                                        std::uint8_t code, std::int64_t* shape,
                                        std::int64_t* strides);

/// The same with a reference to the storage, for a consumer that calls the deleter. Throws
/// BufferError if DLPack cannot describe the strides.
[[nodiscard]] dlpack::Versioned* export_versioned(const Tensor& tensor, std::uint8_t code);

/// Strides in elements, as DLPack counts them, which live as long as the tensor. Throws BufferError
/// if one is not a multiple of the item size.
[[nodiscard]] std::int64_t* element_strides_of(Tensor& tensor);

/// A capsule that releases the structure unless a consumer has taken it over.
template <typename Managed>
[[nodiscard]] py::object in_capsule(Managed* managed) {
  return checked(PyCapsule_New(managed, dlpack::name_of(managed), [](PyObject* capsule) {
    const char* const name = dlpack::name_of(static_cast<Managed*>(nullptr));
    if (PyCapsule_IsValid(capsule, name) == 0) return;  // the consumer has renamed it
    auto* const unused = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
    if (unused->deleter != nullptr) unused->deleter(unused);
  }));
}

/// The storage of a structure that `export_versioned` has made, a borrowed reference, or null if
/// another library made the structure.
[[nodiscard]] PyObject* exported_storage(const dlpack::Versioned& managed) noexcept;

void add_dlpack_capsules(py::module_& module);

}  // namespace shmtensor::python
