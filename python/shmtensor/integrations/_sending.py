"""Messages of transports that pickle before they name the pipe: their tickets end with the pipe's readers."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

import shmtensor._core as _core

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["into_pipe", "is_sending", "of_feeder", "of_queue", "pickles_message"]


class _Sending(threading.local):
    connection: Any = None


_sending = _Sending()


def into_pipe(send: Callable[..., Any], connection_of: Callable[..., Any]) -> Callable[..., Any]:
    """Return `send` with the messages that it pickles assigned to a pipe.

    Parameters
    ----------
    send
        Pickles by a function of `pickles_message`, in the calling thread, and writes.
    connection_of
        Returns the connection into which it writes, from the same arguments.
    """

    @functools.wraps(send)
    def assigned(*args: Any, **options: Any) -> Any:
        before, _sending.connection = _sending.connection, connection_of(*args, **options)
        try:
            return send(*args, **options)
        finally:
            _sending.connection = before

    return assigned


def is_sending() -> bool:
    """Return True if this thread pickles a message that it writes into a pipe."""
    return _sending.connection is not None


def pickles_message(dumps: Callable[..., Any]) -> Callable[..., Any]:
    """Return `dumps` with the tickets of each message assigned to its pipe; cancelled if `dumps` fails.

    A message that is then not written, or not read, is cancelled by the manager after its pipe has lost its
    readers.
    """

    @functools.wraps(dumps)
    def assigned(*args: Any, **options: Any) -> Any:
        if not is_sending():
            return dumps(*args, **options)
        with _core.SendScope(_outgoing_pipe(_sending.connection)) as message:
            content = dumps(*args, **options)
            message.delivered()
        return content

    return assigned


def _outgoing_pipe(connection: Any) -> _core.OutgoingPipe:
    pipe: _core.OutgoingPipe | None = getattr(connection, "outgoing", None)
    if pipe is None:
        connection.outgoing = pipe = _core.OutgoingPipe(connection.fileno())
    return pipe


def of_feeder(_buffer: Any, _notempty: Any, send_bytes: Any, *_: Any) -> Any:
    """Return the connection of `Queue._feed`, which every copy of multiprocessing has."""
    return send_bytes.__self__


def of_queue(queue: Any, _: Any) -> Any:
    """Return the connection of `SimpleQueue.put`."""
    return queue._writer
