// Handles of storages: written for a message, read from one, cancelled.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "bindings/storage/storage.hpp"
#include "session/handle.hpp"

namespace shmtensor::python {

/// How the work of other libraries on GPU memory is ordered before the reader's.
enum class DeviceOrder : std::uint8_t {
  by_wait,   ///< the sender waits for the device
  by_event,  ///< the message has an event, for which its reader waits
};

/// A handle of a block for one message, followed by `tail` and signed.
[[nodiscard]] py::object send_storage(const Storage& storage, Access access,
                                      std::span<const std::byte> tail,
                                      DeviceOrder order = DeviceOrder::by_wait);

/// The storage that a handle names: the one that this process has, or a new one. Consumes the
/// handle's ticket, unless a ReadScope leaves it to others. `bytes` is the whole encoded form.
/// Throws StaleHandle.
[[nodiscard]] py::object receive_storage(const Handle& handle, std::span<const std::byte> bytes);

/// The storage of a block of the session that a message names. Consumes the ticket, if one is given.
/// `arena` is that of the last such block, or empty. Throws StaleHandle.
[[nodiscard]] py::object receive_block(Session& session, const Handle& handle,
                                       const std::optional<Ticket>& ticket, PinnedArena& arena);

/// The tensor of a handle whose tail is a view. `dtype` is null for a dtype that has a code. Throws
/// StaleHandle.
[[nodiscard]] py::object receive_tensor(std::span<const std::byte> bytes, PyObject* dtype);

/// Cancels a handle that no process will read: its block is freed unless another process holds it
/// or another unread message refers to it. Throws StaleHandle.
void cancel_handle(const Handle& handle, std::span<const std::byte> bytes);

}  // namespace shmtensor::python
