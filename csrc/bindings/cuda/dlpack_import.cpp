#include "bindings/cuda/dlpack_import.hpp"

#include <string>

#include "bindings/cuda/dlpack.hpp"
#include "bindings/tensor/shape.hpp"

namespace shmtensor::python {
namespace {

using dlpack::DlTensor;
using dlpack::Plain;
using dlpack::Versioned;

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

void add_dlpack_import(py::module_& module) { module.def("from_dlpack", &from_dlpack); }

}  // namespace shmtensor::python
