// Arrays and buffers over shared memory, and copies of others.
#pragma once

#include "bindings/support/python.hpp"
// Python's headers come before all others.
#include <cstdint>

namespace shmtensor::python {

/// The object as an array of NumPy. Throws TypeError.
[[nodiscard]] py::array to_array(PyObject* object);

/// A tensor with the elements of an array; null unless they are in shared memory.
[[nodiscard]] py::object tensor_over_array(const py::array& array);

/// The bytes that `copy_of_buffer` has copied in this thread: those for the message that is
/// pickled. Returns them and starts again with others.
std::uint64_t exchange_copied_bytes(std::uint64_t bytes) noexcept;

void add_shared_memory(py::module_& module);

}  // namespace shmtensor::python
