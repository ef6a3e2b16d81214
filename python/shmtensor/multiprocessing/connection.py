"""The standard library's pipes, with messages that are cancelled if they cannot be sent."""

from __future__ import annotations

import io
import pickle
import struct
from contextlib import suppress
from multiprocessing import connection as std
from multiprocessing import context, reduction
from typing import Any

import shmtensor._core as _core
from shmtensor._pickling import dumps, load_with_buffers
from shmtensor.errors import StaleHandleError

__all__ = ["Connection", "Pipe"]

_INT, _LARGE = struct.Struct("!i"), struct.Struct("!iQ")
_LARGEST_INT = 0x7FFFFFFF


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    return getattr(std, name)  # everything that is not replaced here


class Connection(std.Connection):
    """One end of a pipe; see `multiprocessing.connection.Connection`."""

    _dumps = staticmethod(dumps)
    outgoing: _core.OutgoingPipe | None = None  # the pipe, for messages of this process; made by the first

    def send(self, obj: Any) -> None:
        """Send an object; tensors and large buffers in it travel as handles. On failure it is cancelled."""
        self._check_closed()  # type: ignore[attr-defined]
        self._check_writable()  # type: ignore[attr-defined]
        with _core.SendScope(self.outgoing or outgoing_pipe(self)) as message:
            write_message(self, message, self._dumps(obj))

    def recv(self) -> Any:
        """Receive an object. If it cannot be unpickled, the tensors in it are freed."""
        return loads_or_release(self.recv_bytes())


def outgoing_pipe(connection: Connection) -> _core.OutgoingPipe:
    """Return the pipe of an open connection, for the messages that this process sends into it."""
    if connection.outgoing is None:
        connection.outgoing = _core.OutgoingPipe(connection.fileno())
    return connection.outgoing


def write_message(connection: std.Connection[Any, Any], message: _core.SendScope, content: Any) -> None:
    """Write a pickled message in the format of the standard library's `_send_bytes`."""
    message.write(connection.fileno(), _header(len(content)), content)


def _header(size: int) -> bytes:
    return _INT.pack(size) if size <= _LARGEST_INT else _LARGE.pack(-1, size)


def loads_or_release(content: bytes) -> Any:
    """Unpickle a message that can be read only once.

    If that fails, the tensors that were not unpickled yet are released: their tickets would otherwise keep
    their memory allocated.
    """
    try:
        return pickle.loads(content)
    except BaseException:
        _release(content)
        raise


def _release(content: bytes) -> None:
    # Stops at the first error: the pickle is damaged, memory is short, or the manager does not answer, which
    # would cost a timeout for each handle.
    with suppress(Exception):
        import pickletools

        has_buffers = False
        for _, argument, _ in pickletools.genops(content):
            if argument == load_with_buffers.__name__:
                has_buffers = True
            elif isinstance(argument, bytes) and has_buffers:
                _release(argument)  # the stream, which comes first
                has_buffers = False
            elif isinstance(argument, bytes):
                with suppress(StaleHandleError):  # not a handle, or its tensor does not exist any more
                    _core.cancel_handle(argument)


def dumps_for_child(popen: Any, *objects: Any) -> memoryview:
    """Pickle objects one after another for the child that `popen` starts."""
    buffer = io.BytesIO()
    context.set_spawning_popen(popen)
    try:
        for obj in objects:
            reduction.dump(obj, buffer)
    finally:
        context.set_spawning_popen(None)
    return buffer.getbuffer()


def take_over(connection: std.Connection[Any, Any]) -> Connection:
    """Return a `Connection` with the descriptor of one of the standard library's, which is left closed."""
    fd = connection.fileno()
    connection._handle = None  # type: ignore[attr-defined]  # first: no descriptor is closed twice
    return Connection(fd, connection.readable, connection.writable)


def Pipe(duplex: bool = True) -> tuple[Connection, Connection]:  # noqa: N802
    """Return two connected ends; see `multiprocessing.Pipe`."""
    first, second = std.Pipe(duplex)
    return take_over(first), take_over(second)


def _reduce(connection: Connection) -> Any:
    duplicate = reduction.DupFd(connection.fileno())
    return _rebuild, (duplicate, connection.readable, connection.writable)


def _rebuild(duplicate: Any, readable: bool, writable: bool) -> Connection:
    return Connection(duplicate.detach(), readable, writable)


reduction.register(Connection, _reduce)
