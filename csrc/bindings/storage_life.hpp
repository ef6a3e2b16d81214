// How the Python objects of storages come and go; for the files that make them.
#pragma once

#include "bindings/storage.hpp"

namespace shmtensor::python {

/// An object over that memory, which it takes over. It is not known yet to `find_object`.
[[nodiscard]] py::object new_object(std::uint64_t size, const Backing& backing);

/// The object under which a block is known in this process, as a new reference, or null. A writable
/// one serves a reader too.
[[nodiscard]] PyObject* find_object(const LocalTable::Lock& lock, Access access) noexcept;

/// The object of a block, of which this call owns one reference: the one that is known, or a new
/// one, which then is.
[[nodiscard]] py::object wrap_block(Arena* arena, BlockNumber block, Access access);

/// Lets go of a block that the object, which may be gone, has held.
void release_block(const Storage* storage, const Backing& backing) noexcept;

/// Gives idle pages of an arena of this process back, with the GIL given away, if it is time. To be
/// called after an allocation or a release, with no lock held.
void trim_in_passing(Arena& arena) noexcept;
inline void trim_if_due(Arena& arena) noexcept {
  if (arena.trim_is_due()) trim_in_passing(arena);
}

/// tp_dealloc of the type.
void storage_dealloc(PyObject* self);

/// shmtensor.Storage, of which `new_object` makes instances.
void set_storage_class(const py::object& type);

}  // namespace shmtensor::python
