"""Broadcast: each message to all readers, through shared memory."""

from __future__ import annotations

from typing import Any, Literal, SupportsIndex, get_args

import shmtensor._core as _core
import shmtensor._queue.queue  # noqa: F401 - registers the exceptions and the picklers
from shmtensor._by_handle import SentByHandle
from shmtensor._queue.channel import Item, Readable, Writable
from shmtensor._queue.labels import label_or_place
from shmtensor._values import check_integer, check_limit

OnFull = Literal["block", "drop_oldest", "raise"]

_MOST = 65536


class Broadcast(SentByHandle, Writable[Item], _core.BroadcastBase):
    """Messages from a process to all readers, in shared memory.

    Each reader gets every item that is put after it has joined, in order. Readers are made by `reader`, in
    any process, at any time, and leave by `close` or when their process ends. Any process may put; usually
    one does.

    A broadcast travels as a `Queue` does: through any queue or pipe, as an argument of a process, and by
    `publish` and `attach`. It has no thread and no descriptor. When no process has it any more, its unread
    messages are freed.

    A message is held once for all readers. A tensor in it is a handle: all readers and the sender use the
    same memory. So a reader that writes into it writes for all; send ``tensor.as_readonly()`` to prevent
    that. Any other object is pickled once; its buffers of at least 64 KiB (NumPy arrays, data frames) are
    copied once, into shared memory that all readers then use and cannot write. A message is freed when all
    readers have read it and deleted what they received.

    A process may be killed at any time: the others continue. A reader that is killed is not waited for; one
    that is stopped is, unless `on_full` is "drop_oldest".

    Parameters
    ----------
    maxsize
        Number of messages that fit, from 1 to 65,536: how far the slowest reader may be behind.
    on_full
        What `put` does if the slowest reader is that far behind: "block" waits for it, "drop_oldest" lets it
        miss the oldest messages, "raise" raises `queue.Full`.
    max_bytes
        The same while the messages that the slowest reader has still to read have so many bytes, with all
        shared memory to which they refer; a message of any size is put while they have fewer. None for no
        limit.
    label
        As for `Queue`.

    Raises
    ------
    ValueError
        If `maxsize`, `on_full` or `max_bytes` is not one of these, or `label` too long.
    OutOfSharedMemory
        If there is not enough memory.

    See Also
    --------
    shmtensor.Queue : each message to one process.
    """

    __slots__ = ()

    def __init__(
        self,
        maxsize: SupportsIndex,
        on_full: OnFull = "block",
        *,
        max_bytes: SupportsIndex | None = None,
        label: str | None = None,
    ) -> None:
        size = check_integer("maxsize", maxsize, 1, _MOST)
        if on_full not in get_args(OnFull):
            raise ValueError(
                f"on_full must be one of {', '.join(map(repr, get_args(OnFull)))}, not {on_full!r}"
            )
        most = check_limit(max_bytes, "max_bytes")
        super().__init__(_core.new_broadcast_storage(size, most, on_full, label_or_place(label)))

    def reader(self, *, newest: bool = False) -> BroadcastReader[Item]:
        """Join as a reader: it gets every item that is put from now on.

        Parameters
        ----------
        newest
            Each `get` returns the newest item, and those before it are missed. No writer waits for this
            reader, and other readers miss nothing.

        Raises
        ------
        ValueError
            If the broadcast is closed in this process.
        SessionError
            If there are 256 readers.
        """
        return BroadcastReader(self, newest=newest)

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.readers} readers, lag {self.lag()}"
        return f"<{type(self).__name__}: {state}, maxsize {self.maxsize}, on_full {self.on_full!r}>"


class BroadcastReader(Readable[Item], _core.BroadcastReaderBase):
    """A reader of a `Broadcast`, made by its method `reader`.

    It belongs to the process that made it: a forked child makes its own. It leaves by `close`, when it is
    deleted, and when its process ends. Several threads may use one reader; each item goes to one of them.
    """

    __slots__ = ()

    def __init__(self, broadcast: Broadcast[Item], *, newest: bool = False) -> None:
        super().__init__(broadcast)
        if newest:
            self._skip_to_newest()

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        raise TypeError("a reader cannot be sent: send its broadcast, and call reader() in the other process")

    def __repr__(self) -> str:
        state = "closed, " if self.closed else ""
        return f"<{type(self).__name__}: {state}missed {self.missed}>"
