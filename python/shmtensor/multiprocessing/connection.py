"""Pipes in shared memory: the connections of the standard library, over two queues."""

from __future__ import annotations

import errno
import io
import os
import sys
from multiprocessing import connection as std
from multiprocessing import reduction
from typing import TYPE_CHECKING, Any, NoReturn

import shmtensor._core as _core
from shmtensor._queue.errors import QueueClosed, ShutDown
from shmtensor._queue.labels import label_of_kind
from shmtensor._queue.queue import Queue
from shmtensor.multiprocessing._pickles import loads_or_release

if TYPE_CHECKING:
    from shmtensor.storage import Storage

__all__ = ["Pipe", "PipeEnd"]
__dir__ = __all__.copy

_MOST_BYTES = 64 * 1024 * 1024  # that were sent and not received, in each direction


def __getattr__(name: str) -> Any:
    return getattr(std, name)  # everything that is not replaced here


class _Direction(Queue[Any]):
    """The messages from one end of a pipe to the other."""

    __slots__ = ()
    _counts_copies = True


class PipeEnd(std.Connection):
    """One end of a pipe; see `multiprocessing.connection.Connection`.

    The messages are in shared memory. When no process has the other end any more, `recv` returns what was
    sent, then raises EOFError, and `send` raises BrokenPipeError. Several threads and processes may use one
    end: each message is received once, and whole.

    `fileno` is for `select`, `wait` and event loops: it is readable while `recv` would not wait.
    """

    if TYPE_CHECKING:  # methods of the base class

        def _check_closed(self) -> None: ...
        def _check_readable(self) -> None: ...
        def _check_writable(self) -> None: ...

    def __init__(self, hold: _core.PipeHold, read: _Direction | None, written: _Direction | None) -> None:
        self._handle: Any = hold  # the base class compares it with None
        self._read, self._written = read, written
        self._readable, self._writable = read is not None, written is not None

    @property
    def _dumps(self) -> Any:
        return self._written and self._written._dumps

    @_dumps.setter
    def _dumps(self, dumps: Any) -> None:
        if self._written is not None:
            self._written._dumps = dumps

    def __del__(self, _at_the_end: Any = sys.is_finalizing) -> None:
        if not _at_the_end():  # modules may be gone; this end is closed with the process
            super().__del__()

    def fileno(self) -> int:
        """Return a descriptor that is readable while there is a message, or, of a write-only end, room."""
        if (read := self._read) is not None:
            return read.fileno()
        return (self._written or self._refuse())._fileno_of_room()

    def send(self, obj: Any) -> None:
        """Send an object; tensors and large buffers in it travel as handles. On failure it is cancelled."""
        written = self._written or self._refuse()
        try:
            written.put(obj)
        except (ShutDown, QueueClosed) as error:
            raise self._error(error, _broken_pipe()) from None

    def recv(self) -> Any:
        """Receive an object. If it cannot be unpickled, the tensors in it are freed."""
        read = self._read or self._refuse()
        try:
            is_raw, message = read._take()
        except (ShutDown, QueueClosed) as error:
            raise self._error(error, EOFError()) from None
        return loads_or_release(message) if is_raw else message

    def _send_bytes(self, content: memoryview) -> None:
        written = self._written or self._refuse()
        try:
            written._put_bytes(content if content.contiguous else bytes(content))
        except (ShutDown, QueueClosed) as error:
            raise self._error(error, _broken_pipe()) from None

    def _recv_bytes(self, most: int | None = None) -> io.BytesIO | None:
        read = self._read or self._refuse()
        try:
            is_raw, message = read._take()
        except (ShutDown, QueueClosed) as error:
            raise self._error(error, EOFError()) from None
        content = message if is_raw else reduction.ForkingPickler.dumps(message)
        if most is not None and len(content) > most:
            return None
        buffer = io.BytesIO()
        buffer.write(content)
        return buffer

    def _poll(self, timeout: float | None) -> bool:
        read = self._read or self._refuse()
        try:
            return read._wait(timeout if timeout is None else max(timeout, 0))
        except (ShutDown, QueueClosed) as error:
            raise self._error(error, _broken_pipe()) from None

    def _refuse(self) -> NoReturn:
        # Another thread may have closed the end since the base class checked it.
        self._check_closed()
        self._check_readable()
        self._check_writable()
        raise AssertionError

    # Not a context manager, which would take longer than all else in `send`.
    def _error(self, error: Exception, at_end: Exception) -> Exception:
        # `close` in another thread shuts the queues down, too.
        return at_end if isinstance(error, ShutDown) and self._handle is not None else OSError(_CLOSED)

    def _close(self) -> None:
        hold, directions = self._handle, (self._read, self._written)
        self._handle = self._read = self._written = None
        has_ended = hold is not None and hold.close()
        for direction in directions:
            if direction is not None:
                if has_ended:
                    direction.shutdown()  # the manager does this, too, but a moment later
                direction.close()
        _core.ensure_managers()  # a killed one does not let the other end know


_CLOSED = "handle is closed"  # as in the standard library


def _broken_pipe() -> OSError:
    return BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def Pipe(duplex: bool = True) -> tuple[PipeEnd, PipeEnd]:  # noqa: N802
    """Return two connected ends; see `multiprocessing.Pipe`.

    `send` waits while 64 MiB were sent and not received, without the tensors, which exist anyway.
    """
    label = label_of_kind("pipe")

    def new() -> Storage:
        return _core.new_queue_storage(0, _MOST_BYTES, True, False, label.encode())

    there, back = new(), new() if duplex else None
    reader = _open(_core.new_pipe_end_storage(back, there), there, back)
    return reader, _open(_core.new_pipe_end_storage(there, back), back, there)


def _open(end: Storage, read: Storage | None, written: Storage | None) -> PipeEnd:
    return PipeEnd(
        _core.PipeHold(end), *(None if one is None else _direction(one) for one in (read, written))
    )


def _direction(storage: Storage) -> _Direction:
    direction = _Direction.__new__(_Direction)
    direction._open(storage)
    return direction


def reduce_end(end: PipeEnd) -> Any:
    """Reduce an end of a pipe, which the receiver has, too."""
    queues = [None if one is None else one._storage for one in (end._read, end._written)]
    hold = end._handle  # read last: `close` clears it first
    storage = None if hold is None else hold.storage()
    if storage is None:
        raise OSError(_CLOSED)
    return _open, (storage, *queues)


reduction.register(PipeEnd, reduce_end)
