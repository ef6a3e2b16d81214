"""Dask distributed: arrays and data frames between processes of one session travel as handles.

A message of Dask is a list of frames; `_dask.frames` replaces large ones by handles after Dask has made
them, so nothing depends on the types of values. The two ends of a connection agree in their handshake, by a
proof that both can map this session's memory; the scheduler never agrees, since it forwards frames to
unknown processes. Dask may lose a message or serialize it again, so the handles have no tickets: the
sender's `Link` holds the blocks until the receiver has marked the message as read. If the sender is killed
before, the receiver finds a stale handle, which Dask gets as a truncated message, and computes the value
again. docs/guide/with-dask.md describes the behaviour.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import dask
import distributed.protocol
from distributed.comm import tcp
from tornado import gen

from shmtensor.integrations._dask.link import Link
from shmtensor.integrations._dask.membership import proof
from shmtensor.integrations._registry import install as install_by_name
from shmtensor.integrations._replacements import Replacements

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["dask_setup", "install", "uninstall"]

_KEY = "shmtensor"  # in handshakes: the proof of the session; in what follows from them: the link
_INTERVAL = 0.005  # seconds

_agreements, _messages = Replacements(), Replacements()
uninstall = _agreements.restore  # connections that have agreed keep to it, since the other end does
_handshake_configuration: Any = tcp.TCP.handshake_configuration
_close: Any = tcp.TCP.close
_close_comm: Any = tcp._close_comm
_dumps: Any = distributed.protocol.dumps
_loads: Any = distributed.protocol.loads


def install() -> None:
    """Let connections that are made from now on agree on handles."""
    if not isinstance(vars(tcp.TCP).get("deserialize"), _Deserialize):
        _messages.set(tcp.TCP, "deserialize", _Deserialize())
        _messages.set(tcp, "_close_comm", _closed)
        _messages.set(tcp.TCP, "close", gen.coroutine(_close_when_read))
        _messages.set(distributed.protocol, "dumps", _dump)
        _messages.set(distributed.protocol, "loads", _load)
    _agreements.set(tcp.TCP, "handshake_info", _introduce)
    _agreements.set(tcp.TCP, "handshake_configuration", staticmethod(_agree))


def dask_setup(_service: Any) -> None:
    """Install; Dask calls this where the module is in a ``preload`` list of its configuration."""
    install_by_name("dask")


def _introduce(comm: Any) -> dict[str, Any]:
    """Add to the handshake what only processes of this session know.

    One end that does not deserialize, the scheduler, forwards the frames to any process, at any time.
    """
    info: dict[str, Any] = super(tcp.TCP, comm).handshake_info()
    known = proof() if comm.deserialize else None
    return info if known is None else {**info, _KEY: known}


def _agree(local: dict[str, Any], remote: dict[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = _handshake_configuration(local, remote)
    if local.get(_KEY) is not None and local[_KEY] == remote.get(_KEY):
        options[_KEY] = Link()
    return options


class _Deserialize:
    """The attribute `deserialize` of a connection, which it passes to `loads`: its link, if it has one."""

    def __get__(self, comm: Any, _kind: type) -> Any:
        if comm is None:
            return self
        attributes = vars(comm)
        return attributes.get("handshake_options", {}).get(_KEY) or attributes["deserialize"]

    def __set__(self, comm: Any, value: bool) -> None:
        vars(comm)["deserialize"] = value


def _dump(message: Any, *args: Any, context: dict[str, Any] | None = None, **options: Any) -> list[Any]:
    frames: list[Any] = _dumps(message, *args, context=context, **options)
    link = (context or {}).get(_KEY)
    return frames if link is None else link.shorten(frames)


def _load(frames: list[Any], deserialize: Any = True, **options: Any) -> Any:
    if isinstance(deserialize, Link):
        frames, deserialize = deserialize.restore(frames), True
    return _loads(frames, deserialize=deserialize, **options)


def _close_when_read(comm: Any) -> Iterator[Any]:
    """Close a connection when the other end has read what was written, or has closed it.

    If the other end does neither, wait as long as TCP does for one that does not answer.
    """
    stream, link = comm.stream, comm.handshake_options.get(_KEY)
    if stream is not None and link is not None:
        comm.stream, comm._closed = None, True  # as `TCP.close` begins: no task uses it meanwhile
        with suppress(OSError):  # it is closed
            if stream.writing():
                yield stream.write(b"")
        timeout = dask.utils.parse_timedelta(dask.config.get("distributed.comm.timeouts.tcp"))
        last = time.monotonic() + timeout
        while link.has_unread() and not stream.closed() and time.monotonic() < last:
            yield gen.sleep(_INTERVAL)
        comm.stream = stream
    yield _close(comm)


def _closed(reference: Any) -> None:
    _close_comm(reference)
    comm = reference()
    link = comm and comm.handshake_options.get(_KEY)
    if link:
        link.close()
