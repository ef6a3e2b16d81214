// Storages over blocks: objects for known blocks, and new blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "bindings/storage/storage.hpp"

namespace shmtensor::python {

/// A block's bytes in this process. Releases the GIL if mapping them takes a call of the system.
[[nodiscard]] std::span<std::byte> bytes_of(Arena* arena, BlockNumber block, Access access);

/// The object that this process has for a block, as a new reference, or null. In the process that
/// has allocated the block, a writable one serves a reader, too; a child that was forked from that
/// process has a writable one of blocks that are sent to it read-only.
[[nodiscard]] PyObject* find_object(const Arena& arena, const LocalTable::Lock& lock,
                                    Access access) noexcept;

/// The object for a block, of which this call takes over one reference: the known one, or a new
/// one, which `find_object` finds from then on.
[[nodiscard]] py::object wrap_block(Arena* arena, BlockNumber block, Access access);

/// The same for a block that was received: looks for the known object first.
[[nodiscard]] py::object adopt_block(Arena* arena, BlockNumber block, Access access);

/// A storage over a new block of this process's arena, of the default strategy. Starts a session if
/// there is none.
[[nodiscard]] py::object new_shared_storage(std::uint64_t size, bool zeroed);

/// A storage over a new block with a copy of the bytes. Releases the GIL while it copies many.
[[nodiscard]] py::object share_copy(std::span<const std::byte> bytes);

void add_allocation(py::module_& module);

}  // namespace shmtensor::python
