// The Python objects of storages: made, destroyed, and their blocks released.
#pragma once

#include "bindings/storage/storage.hpp"

namespace shmtensor::python {

/// An object over that memory, which it takes over; if this throws, the caller still owns the
/// memory. `find_object` does not find the object yet. To be called with no lock held: the first
/// call in a process imports `shmtensor.reducers`.
[[nodiscard]] py::object new_object(std::uint64_t size, const Backing& backing);

/// Releases a block that the object, which may be destroyed already, has held.
void release_block(const Storage* storage, const Backing& backing) noexcept;

/// Lets no one find the object any more; the block stays held.
void forget_object(const Storage* storage, const Backing& backing) noexcept;

/// Returns idle pages of an arena of this process to the system if it is time; without the GIL. To
/// be called after an allocation or a release, with no lock held.
void trim_in_passing(Arena& arena) noexcept;
inline void trim_if_due(Arena& arena) noexcept {
  if (arena.trim_is_due()) trim_in_passing(arena);
}

/// tp_dealloc of the type.
void storage_dealloc(PyObject* self);

void add_lifetime(py::module_& module);

}  // namespace shmtensor::python
