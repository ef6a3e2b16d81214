// The docstrings of queues' methods.
#pragma once

namespace shmtensor::python::queue_docs {

inline constexpr char kPut[] = R"(put($self, item, block=True, timeout=None)
--

Put an item at the end.

Parameters
----------
item
    Any object that can be pickled. A tensor is not copied, and shared from then on.
block
    Whether to wait for room if the queue is full.
timeout
    Seconds to wait; None for no limit.

Raises
------
queue.Full
    If there was no room in that time.
ShutDown
    If the queue was shut down.
ValueError
    If the queue is closed in this process, also meanwhile.
OutOfSharedMemory
    If there is not enough memory; the queue is unchanged.)";

inline constexpr char kGet[] = R"(get($self, block=True, timeout=None)
--

Remove the first item and return it.

Parameters
----------
block
    Whether to wait for an item if the queue is empty.
timeout
    Seconds to wait; None for no limit.

Raises
------
queue.Empty
    If there was no item in that time.
ShutDown
    If the queue was shut down and is empty.
ValueError
    If the queue is closed in this process, also meanwhile.
StaleHandleError
    If the item was lost: the manager was killed together with all processes that had its memory
    open.)";

inline constexpr char kPutNowait[] = R"(put_nowait($self, item, /)
--

Put an item if there is room, as ``put(item, block=False)``.)";

inline constexpr char kGetNowait[] = R"(get_nowait($self, /)
--

Return the first item if there is one, as ``get(block=False)``.)";

inline constexpr char kPutMany[] = R"(put_many($self, items, block=True, timeout=None)
--

Put all items of an iterable in order.

Other processes may put items between them. `timeout` limits the whole call; the items that were
put until
then stay in the queue. Raises what `put` raises.)";

inline constexpr char kGetMany[] = R"(get_many($self, most=None, block=True, timeout=None)
--

Remove the items that are there, at most `most`, and return them as a list.

Waits for the first one only. Raises what `get` raises if there is none. If a later item cannot be
unpickled, or was lost, returns the items before it; the next `get`, in any form, of this object
raises the error.

A queue with `redeliver` returns 64 items at most. An item that cannot be unpickled stays in it.)";

inline constexpr char kQsize[] = R"(qsize($self, /)
--

Return the number of items; exact if no process puts or gets in the meantime.)";

inline constexpr char kEmpty[] = R"(empty($self, /)
--

Return True if the queue is empty; exact if no process puts or gets in the meantime.)";

inline constexpr char kFull[] = R"(full($self, /)
--

Return True if the queue has `maxsize` items; exact if no process puts or gets in the meantime.)";

inline constexpr char kTaskDone[] = R"(task_done($self, /)
--

Count an item that this process got as done, for `join`.

With `redeliver`, complete the first item that this thread got and has not completed.

Raises
------
ValueError
    If it was called more often than items were put; with `redeliver`, if this thread has no such
    item.)";

inline constexpr char kJoin[] = R"(join($self, /)
--

Wait until `task_done` was called for every item that was put; with `redeliver`, until every item is
completed.

Raises
------
ValueError
    If the queue is closed in this process meanwhile.)";

inline constexpr char kShutdown[] = R"(shutdown($self, immediate=False)
--

Let every later `put` raise `ShutDown`, and every `get` after the last item.

Processes that wait are woken. With `immediate`, the items that are there are discarded and
counted as done. With `redeliver`, a `get` after the last item waits until no other consumer has an
item that it has not completed.)";

inline constexpr char kFileno[] = R"(fileno($self, /)
--

Return a descriptor that is readable while there is an item, or the queue is shut down.

For `select`, `multiprocessing.connection.wait` and event loops. It stays open as long as this
object; do not read from it or close it. Another process may take the item first: use `get_nowait`.
A forked child has a descriptor of its own.

Raises
------
SessionError, OSError
    If the manager, or this process, has no descriptor left.)";

inline constexpr char kFilenoOfRoom[] = R"(_fileno_of_room($self, /)
--

Return a descriptor that is readable while there is room, or the queue is shut down.)";

inline constexpr char kClaimIn[] = R"(_claim_in($self, storage, index)
--

Let each later `get` of this object write the position of its message, plus 1, into a word of 8 bytes.

It is written before the message is consumed.)";

inline constexpr char kPutCount[] = R"(_put_count($self, /)
--

Return how many messages were put since the queue was made.)";

inline constexpr char kTakenCount[] = R"(_taken_count($self, /)
--

Return how many messages were taken since the queue was made, also by processes that are dead.)";

inline constexpr char kClose[] = R"(close($self, /)
--

Refuse `put` and `get` of this object: they raise `ValueError` (which is also an OSError), as do the
calls in which other threads wait. Other processes, and other objects of the same queue, are not affected.

With `redeliver`, other consumers receive the items that were got through this object and not
completed.)";

}  // namespace shmtensor::python::queue_docs
