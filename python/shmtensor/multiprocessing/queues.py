"""The standard library's queues, with a `put` that pickles in the calling thread."""

from __future__ import annotations

import threading
from functools import partial
from multiprocessing import queues as std
from multiprocessing.reduction import ForkingPickler
from multiprocessing.util import register_after_fork
from typing import TYPE_CHECKING, Any

import shmtensor._core as _core
from shmtensor.multiprocessing.connection import loads_or_release, outgoing_pipe, take_over, write_message

__all__ = ["JoinableQueue", "Queue", "SimpleQueue"]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    return getattr(std, name)  # everything that is not replaced here


if TYPE_CHECKING:
    _Queue = std.Queue[Any]
    _JoinableQueue = std.JoinableQueue[Any]
    _SimpleQueue = std.SimpleQueue[Any]
else:  # generic for type checkers only
    _Queue, _JoinableQueue, _SimpleQueue = std.Queue, std.JoinableQueue, std.SimpleQueue


class _Pickled:
    """A message between `put` and the feeder thread.

    If it is deleted before it is written, as when a process ends with a full queue, it is cancelled.
    """

    __slots__ = ("content", "message")

    def __init__(self, obj: Any, pickler: Any, pipe: _core.OutgoingPipe | None) -> None:
        with _core.MessageScope(pipe) as self.message:
            self.content = bytes(pickler.dumps(obj))


# A feeder thread pickles an item, deletes it and writes the bytes: in between, its message is kept here.
_feeding = threading.local()


def _reduce_pickled(pickled: _Pickled) -> Any:
    _feeding.message = pickled.message
    return loads_or_release, (pickled.content,)


def _write_pickled(writer: Any, content: Any) -> None:
    write_message(writer, _feeding.message, content)


ForkingPickler.register(_Pickled, _reduce_pickled)


class _PickledByPut:
    pickler: Any = ForkingPickler
    _writer: Any
    _outgoing: _core.OutgoingPipe | None = None

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an object; tensors in it travel as handles. Pickling errors are raised here."""
        if self._outgoing is None and not self._writer.closed:
            self._outgoing = _core.OutgoingPipe(self._writer.fileno())
        super().put(_Pickled(obj, self.pickler, self._outgoing), block, timeout)  # type: ignore[misc]

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)  # type: ignore[misc]
        # A forked child has no feeder thread; the standard queue registers this only where it was created.
        register_after_fork(self, type(self)._after_fork)  # type: ignore[attr-defined]

    def _reset(self, after_fork: bool = False) -> None:
        super()._reset(after_fork)  # type: ignore[misc]
        self._send_bytes = partial(_write_pickled, self._writer)


class Queue(_PickledByPut, _Queue):
    """A queue shared by processes; see `multiprocessing.Queue`.

    Unlike there, `put` pickles immediately: the caller gets pickling errors, private memory is copied in the
    caller, and later changes to the object are not sent.
    """


class JoinableQueue(_PickledByPut, _JoinableQueue):
    """A `Queue` with `task_done` and `join`; see `multiprocessing.JoinableQueue`."""


class SimpleQueue(_SimpleQueue):
    """A queue that is little more than a pipe with locks; see `multiprocessing.SimpleQueue`."""

    _reader: Any
    _writer: Any
    _rlock: Any
    _wlock: Any

    def __init__(self, *, ctx: Any) -> None:
        super().__init__(ctx=ctx)
        self._reader = take_over(self._reader)
        self._writer = take_over(self._writer)
        self._poll = self._reader.poll

    @property
    def pickler(self) -> Any:
        return self._writer.pickler

    @pickler.setter
    def pickler(self, pickler: Any) -> None:
        self._writer.pickler = pickler

    def put(self, obj: Any) -> None:
        """Add an object; tensors in it travel as handles."""
        writer = self._writer
        with _core.MessageScope(writer.outgoing or outgoing_pipe(writer)) as message:
            write_message(writer, message, writer.pickler.dumps(obj), self._wlock)

    def get(self) -> Any:
        """Take the first object. If it cannot be unpickled, the tensors in it are freed."""
        with self._rlock:
            content = self._reader.recv_bytes()
        return loads_or_release(content)
