// Handles of storages: written for a message, read from one, cancelled.
#pragma once

#include <span>

#include "bindings/storage/storage.hpp"
#include "session/handle.hpp"

namespace shmtensor::python {

/// A handle of a block for one message, followed by `tail` and signed.
[[nodiscard]] py::object send_storage(const Storage& storage, Access access,
                                      std::span<const std::byte> tail);

/// The storage that a handle names: the one that this process has, or a new one. Consumes the
/// handle's ticket. `bytes` is the whole encoded form. Throws StaleHandle.
[[nodiscard]] py::object receive_storage(const Handle& handle, std::span<const std::byte> bytes);

/// Cancels a handle that nobody will read: its block is freed unless another process holds it or
/// another unread message refers to it. Throws StaleHandle.
void spend_handle(const Handle& handle, std::span<const std::byte> bytes);

}  // namespace shmtensor::python
