// Puts and gets Python objects.
#pragma once

#include "bindings/channel/queue_type.hpp"
#include "bindings/channel/waiting.hpp"
#include "bindings/support/python.hpp"

namespace shmtensor::python {

/// Throw queue.Full, queue.Empty, the exception for a queue that was shut down, or ValueError for
/// one that is closed. `dumps` may be
/// null: see EncodedMessage.
void put_one(Queue& queue, PyObject* item, PyObject* dumps, Patience& patience);
[[nodiscard]] py::object get_one(OpenQueue& open, Patience& patience);

/// Waits for the first item only, as `get_one`. An item that cannot be returned ends the list: if
/// the queue redelivers, the item is returned to it, else a later call raises its error.
[[nodiscard]] py::list get_several(OpenQueue& open, Py_ssize_t most, Patience& patience);

/// Returns how many messages were taken, after the repair of what killed processes left.
[[nodiscard]] std::uint64_t count_taken(Queue& queue);

/// Queue::task_done, without the GIL where it may wait.
[[nodiscard]] bool count_done(Queue& queue);

/// Takes all messages of a queue that was shut down, and counts them as done.
void discard_all(Queue& queue);

/// Throws what `put_one`, which awaits room, or `get_one` throws after this attempt.
void raise_unless_done(Attempt result, QueueEvent awaited);

/// Messages outlive this process only if there is a manager, and a process that waits for the queue
/// by a descriptor may not have been notified.
void ensure_manager(Session& session);

void add_queue_exceptions(py::module_& module);

}  // namespace shmtensor::python
