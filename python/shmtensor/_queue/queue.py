"""Queue: messages between processes through shared memory."""

from __future__ import annotations

import pickle
import queue
from contextlib import suppress
from typing import TYPE_CHECKING, SupportsIndex

import shmtensor._core as _core
from shmtensor._by_handle import SentByHandle
from shmtensor._pickling import dumps, dumps_for_many
from shmtensor._queue.channel import Item, Readable, Writable
from shmtensor._queue.errors import QueueClosed, ShutDown
from shmtensor._queue.labels import label_or_place
from shmtensor._values import check_integer, check_limit

if TYPE_CHECKING:
    from collections.abc import Iterable

_core.register_queue_exceptions(queue.Full, queue.Empty, ShutDown, QueueClosed)
_core.register_picklers(dumps, dumps_for_many, pickle.loads)


class Queue(SentByHandle, Writable[Item], Readable[Item], _core.QueueBase):
    """A first-in, first-out queue in shared memory, for any number of processes that put and get.

    A queue travels through any queue or pipe, as an argument of a process, and by `publish` and `attach`.
    Every process that has it uses the same queue. It has no thread, and a descriptor only if `fileno`, `aget`
    or `aput` was called. When no process has it any more, its unread messages are freed.

    A tensor in a message is a handle, as in `multiprocessing`: the receiver uses the same memory. Any other
    object is pickled; its buffers of at least 64 KiB (NumPy arrays, data frames) are copied once, into
    shared memory that the receiver then uses.

    A process may be killed at any time: the others continue. A message is received at most once, and lost
    only if the process that received it is killed, or the one that puts it before `put` returns.

    With `redeliver`, a message is lost only by its producer's death. The thread that received it has
    *completed* it when it calls `get` again, in any form, or `task_done`. If the thread or its process ends
    before that, or this object is closed or deleted, another consumer receives the message. Its tensors are
    the same memory, with what the first consumer has written to them.

    Parameters
    ----------
    maxsize
        Number of messages that fit; 0 for no limit but memory.
    max_bytes
        The queue is full, too, while its unread messages have so many bytes, with all shared memory to which
        they refer; a message of any size is put while they have fewer. None for no limit.
    redeliver
        Whether a message that its consumer has not completed is received again. At most 1,024 messages are
        with consumers then; a consumer waits for one more until one is completed.
    label
        What `shmtensor ls` and `shmtensor top` call the queue, of at most 40 bytes; by default file and line
        that make it.

    Raises
    ------
    ValueError
        If `maxsize` is negative, `max_bytes` not above 0, or `label` too long.
    OutOfSharedMemory
        If there is not enough memory.

    See Also
    --------
    shmtensor.multiprocessing.Queue : the class of the standard library, with handles.
    """

    __slots__ = ()
    _counts_copies = False  # whether `max_bytes` is of the memory that `put` copies

    def __init__(
        self,
        maxsize: SupportsIndex = 0,
        *,
        max_bytes: SupportsIndex | None = None,
        redeliver: bool = False,
        label: str | None = None,
    ) -> None:
        size = check_integer("maxsize", maxsize, 0)
        most = check_limit(max_bytes, "max_bytes")
        super().__init__(
            _core.new_queue_storage(size, most, self._counts_copies, bool(redeliver), label_or_place(label))
        )

    if TYPE_CHECKING:  # the extension does not know the type of the items

        def put_many(
            self, items: Iterable[Item], block: bool = True, timeout: float | None = None
        ) -> None: ...
        def get_many(
            self, most: int | None = None, block: bool = True, timeout: float | None = None
        ) -> list[Item]: ...

    async def aget(self) -> Item:
        """Remove the first item and return it; the event loop runs other tasks until there is one.

        A task that is cancelled, or reaches a timeout, takes no item.

        Raises
        ------
        ShutDown
            If the queue was shut down and is empty.
        """
        from shmtensor._queue.readiness import give_way, wait_until_readable

        await give_way()
        while True:
            with suppress(queue.Empty):
                return self.get_nowait()
            await wait_until_readable(self.fileno())

    async def aput(self, item: Item) -> None:
        """Put an item at the end; the event loop runs other tasks until there is room.

        A task that is cancelled, or reaches a timeout, has put nothing.

        Raises
        ------
        ShutDown
            If the queue was shut down.
        """
        from shmtensor._queue.readiness import give_way, wait_until_readable

        await give_way()
        while True:
            with suppress(queue.Full):
                return self.put_nowait(item)
            await wait_until_readable(self._fileno_of_room())

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.qsize()} messages"
        bytes_limit = "" if self.max_bytes is None else f", max_bytes {self.max_bytes}"
        return f"<{type(self).__name__}: {state}, maxsize {self.maxsize}{bytes_limit}>"
