// Handles of storages: written for a message, read from one, cancelled.
#pragma once

#include <cstdint>
#include <span>

#include "bindings/storage/storage.hpp"
#include "session/handle.hpp"

namespace shmtensor::python {

/// How the work of other libraries on GPU memory is ordered before the reader's.
enum class DeviceOrder : std::uint8_t {
  by_wait,   ///< the sender waits for the device
  by_event,  ///< the message has an event, for which its reader waits
};

/// A handle for one message, whose reader maps the block with this access.
[[nodiscard]] py::object send_storage(const Storage& storage, Access access,
                                      std::span<const std::byte> view,
                                      DeviceOrder order = DeviceOrder::by_wait);

/// The storage of a tensor in a message: the one that this process has, or a new one. Consumes the
/// ticket if the reference has it. `arena` is that of the message's last tensor, or empty. Throws
/// StaleHandle.
[[nodiscard]] py::object receive_storage(Session& session, const TensorReference& reference,
                                         PinnedArena& arena);

/// The storage of a handle, with the ticket that the present ReadScope finds. Throws StaleHandle.
[[nodiscard]] py::object receive_storage(std::span<const std::byte> handle);

/// The tensor of a handle. `dtype` is null for a dtype that has a code. Throws StaleHandle.
[[nodiscard]] py::object receive_tensor(std::span<const std::byte> handle, PyObject* dtype);

/// Cancels a handle that no process will read: its block is freed unless another process holds it
/// or another unread message refers to it. Throws StaleHandle.
void cancel_handle(std::span<const std::byte> handle);

}  // namespace shmtensor::python
