"""Pipes: the standard library's, with messages that are taken back if they cannot be sent."""

from __future__ import annotations

import struct
from multiprocessing import connection as std
from multiprocessing import reduction
from multiprocessing.reduction import ForkingPickler
from typing import Any

import shmtensor._core as _core
from shmtensor.multiprocessing._message import loads

__all__ = ["Connection", "Pipe"]

_INT, _LARGE = struct.Struct("!i"), struct.Struct("!iQ")
_LARGEST_INT = 0x7FFFFFFF


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    return getattr(std, name)  # what is not different here


class Connection(std.Connection):
    """One end of a pipe; see `multiprocessing.connection.Connection`."""

    pickler = ForkingPickler

    def send(self, obj: Any) -> None:
        """Send an object; tensors in it travel as handles.

        If it cannot be pickled or written, nothing stays allocated.
        """
        self._check_closed()  # type: ignore[attr-defined]
        self._check_writable()  # type: ignore[attr-defined]
        with _core.MessageScope() as message:
            write_message(self, message, self.pickler.dumps(obj))

    def recv(self) -> Any:
        """Receive an object. If it cannot be unpickled, the tensors in it are freed."""
        return loads(self.recv_bytes())


def write_message(
    connection: std.Connection[Any, Any], message: _core.MessageScope, content: Any, lock: Any = None
) -> None:
    """Write a pickled message as `_send_bytes` of the standard library does, holding the lock."""
    message.write(connection.fileno(), _header(len(content)), content, lock)


def _header(size: int) -> bytes:
    return _INT.pack(size) if size <= _LARGEST_INT else _LARGE.pack(-1, size)


def take_over(connection: std.Connection[Any, Any]) -> Connection:
    """Make one of ours of a connection of the standard library, which is closed without its descriptor."""
    ours = Connection(connection.fileno(), connection.readable, connection.writable)
    connection._handle = None  # type: ignore[attr-defined]
    return ours


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
