// The end of a tensor's use of its storage.
#pragma once

#include "bindings/support/python.hpp"
#include "bindings/tensor/tensor.hpp"

namespace shmtensor::python {

/// The tensor's storage, as a reference of the caller: another thread may release the tensor while
/// this one uses the memory. Throws ValueError if the tensor was released.
[[nodiscard]] py::object storage_of(const Tensor& tensor);

[[nodiscard]] inline bool is_released(const Tensor& tensor) noexcept {
  return tensor.storage.load(std::memory_order_relaxed) == nullptr;
}

/// The object as a tensor. Throws ValueError if it was released.
[[nodiscard]] Tensor& unreleased(PyObject* tensor);

/// Keeps the memory until the tensor is destroyed, also after its release: for a consumer that has
/// the address and refers to the tensor alone. Throws ValueError if the tensor was released.
void keep_until_end(Tensor& tensor);

// --- methods of the type ---

PyObject* release(PyObject* self, PyObject*);
PyObject* enter(PyObject* self, PyObject*);
PyObject* keep_memory(PyObject* self, PyObject*);
PyObject* get_released(PyObject* self, void*);

}  // namespace shmtensor::python
