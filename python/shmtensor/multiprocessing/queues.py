"""The queues of `multiprocessing`, in shared memory."""

from __future__ import annotations

import operator
import weakref
from multiprocessing import queues as std
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, TypeVar

import shmtensor._core as _core
from shmtensor._queue.errors import ShutDown
from shmtensor._queue.queue import Queue as SharedQueue

if TYPE_CHECKING:
    from typing import SupportsIndex

__all__ = ["JoinableQueue", "Queue", "SimpleQueue"]
__dir__ = __all__.copy


def __getattr__(name: str) -> Any:
    return getattr(std, name)  # everything that is not replaced here


_Item = TypeVar("_Item")

_MOST_BYTES = 64 * 1024 * 1024


class _WithEnds(SharedQueue[_Item]):
    """A shared queue with the attributes of the standard library's that programs are known to use."""

    __slots__ = ("_known_reader",)
    _known_reader: weakref.ref[ReadingEnd]
    _permits_negative_timeouts = True  # a deadline has passed; the standard library's count it as zero

    def __init__(
        self,
        maxsize: SupportsIndex = 0,
        *,
        max_bytes: SupportsIndex | None = None,
        label: str | None = None,
        ctx: Any = None,
    ) -> None:
        super().__init__(max(operator.index(maxsize), 0), max_bytes=max_bytes, label=label)
        if hasattr(ctx, "_for_workers"):  # a context of this package
            ctx._for_workers(self)

    @property
    def _maxsize(self) -> int:
        return self.maxsize

    @property
    def _closed(self) -> bool:
        return self.closed

    # One object as long as a program has it, so that it is found in what `wait` returns. A strong
    # reference would be a cycle, and the memory of the queue would be free only after a collection.
    @property
    def _reader(self) -> ReadingEnd:
        reader = self._known_reader() if hasattr(self, "_known_reader") else None
        if reader is None:
            reader = ReadingEnd(self)
            self._known_reader = weakref.ref(reader)
        return reader

    @property
    def _writer(self) -> WritingEnd:
        return WritingEnd(self)

    def _poll(self, timeout: float | None = 0.0) -> bool:
        return self._reader.poll(timeout)


class Queue(_WithEnds[_Item], std.Queue):  # type: ignore[type-arg]  # generic since Python 3.12
    """A queue with the interface of `multiprocessing.Queue`; see `shmtensor.Queue`.

    `put` pickles the object in the calling thread: the caller gets pickling errors, private memory is copied
    in the caller, and later changes to the object are not sent.

    Parameters
    ----------
    maxsize
        Number of messages that fit; 0 or less for no limit but memory.
    ctx
        The context of the processes that read it; None for any.
    """

    def join_thread(self) -> None:
        """Return: this queue has no thread."""
        assert self.closed, f"{self!r} is not closed"  # as in the standard library

    def cancel_join_thread(self) -> None:
        """Return: this queue has no thread, and what was put is not lost."""


class JoinableQueue(Queue[_Item], std.JoinableQueue):  # type: ignore[type-arg]
    """A `Queue` whose `task_done` and `join` are used; see `multiprocessing.JoinableQueue`."""


class SimpleQueue(_WithEnds[_Item], std.SimpleQueue):  # type: ignore[type-arg]
    """A queue without `maxsize`; see `multiprocessing.SimpleQueue`.

    Parameters
    ----------
    max_bytes
        `put` waits while the unread messages have so many bytes, without those of tensors, which exist
        anyway. None for 64 MiB, but at most a sixteenth of `shmtensor.set_limit`. The standard library's
        waits while its pipe has 64 KiB.
    label
        As for `shmtensor.Queue`.
    ctx
        The context of the processes that read it; None for any.
    """

    _counts_copies = True

    def __init__(
        self, *, max_bytes: SupportsIndex | None = None, label: str | None = None, ctx: Any = None
    ) -> None:
        if max_bytes is None:
            max_bytes = max(min(_MOST_BYTES, _core.get_limit() // 16), 1)
        super().__init__(max_bytes=max_bytes, label=label, ctx=ctx)


class _End:
    def __init__(self, of: _WithEnds[Any]) -> None:
        self._queue = of

    def close(self) -> None:
        """Close the queue in this process."""
        self._queue.close()

    @property
    def closed(self) -> bool:
        return self._queue.closed


class ReadingEnd(_End):
    """The part of a `Connection` that programs use of a queue's `_reader`."""

    def fileno(self) -> int:
        """Return a descriptor that is readable while there is a message."""
        return self._queue.fileno()

    def poll(self, timeout: float | None = 0.0) -> bool:
        """Return True if there is a message, or will be one within the time."""
        return not self._queue.empty() or bool(timeout != 0 and wait([self.fileno()], timeout))

    def recv(self) -> Any:
        """Remove the first object and return it; raise EOFError if the queue was shut down."""
        try:
            return self._queue.get()
        except ShutDown:
            raise EOFError from None


class WritingEnd(_End):
    """The part of a `Connection` that programs use of a queue's `_writer`."""

    def fileno(self) -> int:
        """Return a descriptor that is readable when there is room."""
        return self._queue._fileno_of_room()

    def send(self, obj: Any) -> None:
        """Put an object."""
        self._queue.put(obj)
