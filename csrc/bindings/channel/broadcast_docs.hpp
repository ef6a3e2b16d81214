// The docstrings of the methods of broadcasts and their readers.
#pragma once

namespace shmtensor::python::broadcast_docs {

inline constexpr char kPut[] = R"(put($self, item, block=True, timeout=None)
--

Put an item for all readers that there are now.

Without a reader, the item is dropped. If `on_full` is "raise", this does not wait, as `put_nowait`.

Parameters
----------
item
    Any object that can be pickled. A tensor is not copied: all readers, and this process, use the
    same memory.
block
    Whether to wait for the slowest reader if it has `maxsize` items to read. If `on_full` is
    "drop_oldest", the oldest of them is dropped instead, and nothing waits.
timeout
    Seconds to wait; None for no limit.

Raises
------
queue.Full
    If there was no room in that time.
ShutDown
    If the broadcast was shut down.
ValueError
    If the broadcast is closed in this process.
OutOfSharedMemory
    If there is not enough memory; the broadcast is unchanged.)";

inline constexpr char kPutNowait[] = R"(put_nowait($self, item, /)
--

Put an item if there is room, as ``put(item, block=False)``.)";

inline constexpr char kLag[] = R"(lag($self, /)
--

Return how many items the slowest reader has still to read; 0 without a reader.

At most `maxsize`. Each reader has a `lag` of its own.)";

inline constexpr char kWaitForReaders[] = R"(wait_for_readers($self, count, timeout=None)
--

Wait until there are at least `count` readers.

Raises
------
TimeoutError
    If there were fewer after `timeout` seconds.
ShutDown
    If the broadcast was shut down.)";

inline constexpr char kShutdown[] = R"(shutdown($self, /)
--

Let every later `put` raise `ShutDown`, and every reader after its last item.

Processes that wait are woken.)";

inline constexpr char kClose[] = R"(close($self, /)
--

Refuse further use in this process; its readers, and other processes, are not affected.)";

inline constexpr char kGet[] = R"(get($self, block=True, timeout=None)
--

Return the next item.

Parameters
----------
block
    Whether to wait for an item if all were read.
timeout
    Seconds to wait; None for no limit.

Raises
------
queue.Empty
    If there was no item in that time.
ShutDown
    If the broadcast was shut down and all items were read.
ValueError
    If the reader is closed.
StaleHandleError
    If the item was lost: the manager was killed together with all processes that had its memory
    open.
SessionError
    In a forked child of the process that made the reader.)";

inline constexpr char kGetNowait[] = R"(get_nowait($self, /)
--

Return the next item if there is one, as ``get(block=False)``.)";

inline constexpr char kReaderLag[] = R"(lag($self, /)
--

Return how many items this reader can get without waiting.

At most `maxsize` of the broadcast: items that were dropped do not count, see `missed`.)";

inline constexpr char kReaderClose[] = R"(close($self, /)
--

Leave the broadcast: it does not wait for this reader any more.)";

}  // namespace shmtensor::python::broadcast_docs
