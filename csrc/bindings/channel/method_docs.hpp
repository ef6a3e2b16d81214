// The docstrings of the methods of queues, broadcasts and their readers.
#pragma once

namespace shmtensor::python::docs {

inline constexpr char kPut[] = R"(put($self, item, block=True, timeout=None)
--

Put an item: at the end of a queue, or for all readers that a broadcast has now.

A broadcast without a reader drops the item. If its `on_full` is "drop_oldest", nothing waits, and a
reader that has `maxsize` items to read loses the oldest; if it is "raise", `put` is `put_nowait`.

Parameters
----------
item
    Any object that can be pickled. A tensor is not copied, and shared from then on.
block
    Whether to wait for room if the queue is full, or a reader has `maxsize` items to read.
timeout
    Seconds to wait; None for no limit.

Raises
------
queue.Full
    If there was no room in that time.
ShutDown
    If the queue or the broadcast was shut down.
ValueError
    If it is closed in this process, also meanwhile.
OutOfSharedMemory
    If there is not enough memory; nothing was put.)";

inline constexpr char kGet[] = R"(get($self, block=True, timeout=None)
--

Take the next item and return it.

Parameters
----------
block
    Whether to wait for an item if there is none.
timeout
    Seconds to wait; None for no limit.

Raises
------
queue.Empty
    If there was no item in that time.
ShutDown
    If the queue or the broadcast was shut down, and all items were taken.
ValueError
    If the queue is closed in this process, or the reader, also meanwhile.
StaleHandleError
    If the item was lost: the manager was killed together with all processes that had its memory
    open.
SessionError
    In a forked child of the process that made the reader.)";

inline constexpr char kPutNowait[] = R"(put_nowait($self, item, /)
--

Put an item if there is room, as ``put(item, block=False)``.)";

inline constexpr char kGetNowait[] = R"(get_nowait($self, /)
--

Take the next item if there is one, as ``get(block=False)``.)";

inline constexpr char kPutMany[] = R"(put_many($self, items, block=True, timeout=None)
--

Put all items of an iterable in order.

Other processes may put items between them. `timeout` limits the whole call; the items that were
put until then stay in the queue. Raises what `put` raises.)";

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

inline constexpr char kQbytes[] = R"(qbytes($self, /)
--

Return the bytes of the unread items, with all memory to which they refer, as `max_bytes` counts them.

Items that another consumer receives again, with `redeliver`, are not among them.)";

inline constexpr char kEmpty[] = R"(empty($self, /)
--

Return True if the queue is empty; exact if no process puts or gets in the meantime.)";

inline constexpr char kFull[] = R"(full($self, /)
--

Return True if the queue has `maxsize` items, or unread ones of `max_bytes`.

Exact if no process puts or gets in the meantime.)";

inline constexpr char kTaskDone[] = R"(task_done($self, /)
--

Count an item that this process got as done, for `join`.

With `redeliver`, complete the first item that this thread got and has not completed.

Raises
------
ValueError
    If more often than items were put; with `redeliver`, if this thread has no such item.)";

inline constexpr char kJoin[] = R"(join($self, /)
--

Wait until `task_done` was called for every item; with `redeliver`, until every item is completed.

Raises
------
ValueError
    If the queue is closed in this process meanwhile.)";

inline constexpr char kQueueShutdown[] = R"(shutdown($self, immediate=False)
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

inline constexpr char kQueueClose[] = R"(close($self, /)
--

Refuse `put` and `get` of this object: they raise `ValueError` (which is also an OSError), as do the
calls in which other threads wait. Other processes, and other objects of the same queue, are not affected.

With `redeliver`, other consumers receive the items that were got through this object and not
completed.)";

inline constexpr char kLag[] = R"(lag($self, /)
--

Return how many items the slowest reader has still to read; 0 without a reader.

At most `maxsize`. Each reader has a `lag` of its own.)";

inline constexpr char kLagBytes[] = R"(lag_bytes($self, /)
--

Return the bytes of those items, with all memory to which they refer, as `max_bytes` counts them.)";

inline constexpr char kWaitForReaders[] = R"(wait_for_readers($self, count, timeout=None)
--

Wait until there are at least `count` readers.

Raises
------
TimeoutError
    If there were fewer after `timeout` seconds.
ShutDown
    If the broadcast was shut down.)";

inline constexpr char kBroadcastShutdown[] = R"(shutdown($self, /)
--

Let every later `put` raise `ShutDown`, and every reader after its last item; wake all that wait.)";

inline constexpr char kBroadcastClose[] = R"(close($self, /)
--

Refuse further use in this process; its readers, and other processes, are not affected.)";

inline constexpr char kReaderLag[] = R"(lag($self, /)
--

Return how many items this reader can get without waiting.

At most `maxsize` of the broadcast: items that were dropped do not count, see `missed`.)";

inline constexpr char kReaderClose[] = R"(close($self, /)
--

Leave the broadcast: it does not wait for this reader any more.)";

}  // namespace shmtensor::python::docs
