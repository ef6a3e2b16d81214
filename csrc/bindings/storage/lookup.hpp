// The storage over the memory at an address.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bindings/support/python.hpp"

namespace shmtensor::python {

/// Returns the storage of this process whose bytes contain the range, or null: private memory, a
/// block that this process does not hold, no byte, or bytes of several blocks. An array over a
/// storage keeps it alive, whatever library made the array.
[[nodiscard]] py::object storage_at(const void* address, std::uint64_t size);

void add_lookup(py::module_& module);

}  // namespace shmtensor::python
