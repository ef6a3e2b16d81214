// Atomic operations on the 64-bit words of a storage in host memory.
#pragma once

#include <cstdint>

#include "base/atomic.hpp"
#include "bindings/support/python.hpp"

namespace shmtensor::python {

/// Throws TypeError unless the object is a storage, ValueError unless it is writable memory of the
/// host, IndexError if it has no such word.
[[nodiscard]] Atomic<std::uint64_t>& word_of(PyObject* object, std::uint64_t index);

void add_words(py::module_& module);

}  // namespace shmtensor::python
