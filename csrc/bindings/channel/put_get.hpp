// Puts and gets Python objects.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "bindings/channel/channel_type.hpp"
#include "bindings/channel/encoding.hpp"
#include "bindings/channel/waiting.hpp"
#include "bindings/support/python.hpp"
#include "channel/channel_call.hpp"

namespace shmtensor::python {

/// Throw queue.Full, queue.Empty, the exception for a channel that was shut down, or ValueError for
/// one that is closed. `dumps` may be null: see EncodedMessage.
void put_one(OpenQueue& open, PyObject* item, PyObject* dumps, Patience& patience);
void put_one(OpenBroadcast& open, PyObject* item, PyObject* dumps, Patience& patience);
[[nodiscard]] py::object get_one(OpenQueue& open, Patience& patience);
/// For a pipe: bytes as they are, which `get_either` returns with true.
void put_raw(OpenQueue& open, std::span<const std::byte> bytes, Patience& patience);
[[nodiscard]] std::pair<bool, py::object> get_either(OpenQueue& open, Patience& patience);
[[nodiscard]] py::object get_one(OpenReader& open, Patience& patience);
/// The newest value after the first `after` ones, with the number of values until it; nothing if
/// there is none.
[[nodiscard]] std::optional<std::pair<std::uint64_t, py::object>> get_newer(OpenLatest& open,
                                                                            std::uint64_t after,
                                                                            Patience& patience);

/// Waits for the first item only, as `get_one`. An item that cannot be returned ends the list: if
/// the queue redelivers, the item is returned to it, else a later call raises its error.
[[nodiscard]] py::list get_several(OpenQueue& open, Py_ssize_t most, Patience& patience);

/// After a call that has put a message, or taken one.
void ensure_manager(Session& session);

/// What this thread received before is completed when it asks for the next message.
void complete_all(Queue& queue);

/// Throws what `put_one`, which awaits room, or `get_one` throws after this attempt.
void raise_unless_done(Attempt result, QueueEvent awaited, const char* channel);

void add_queue_exceptions(py::module_& module);

}  // namespace shmtensor::python
