"""Functions for the session of this process: counters, garbage collection, the limit."""

from __future__ import annotations

from typing import Any, TypedDict, cast

import shmtensor._core as _core
from shmtensor._sync.kept import release_kept
from shmtensor._values import check_integer, check_range

__all__ = ["Stats", "gc", "set_limit", "stats"]


class Stats(TypedDict):
    """The result of `stats`."""

    session: str | None
    slot: int | None
    processes: int
    arenas: int
    blocks: int
    bytes_live: int
    bytes_reserved: int
    in_flight: int
    queues: int
    queued: int
    descriptors: int
    mappings: int


class _Counters(dict[str, Any]):
    """What `stats` returns: a dict that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        from shmtensor._html import size, table

        facts = [
            (name.replace("_", " "), size(value) if name.startswith("bytes_") else value)
            for name, value in self.items()
            if value is not None
        ]
        return table("Session" if self["session"] else "No session yet", facts)


def stats() -> Stats:
    """Return resource counters of the session of this process.

    Returns
    -------
    Stats
        A dict. For this process: `session` (the id, 32 hexadecimal digits, None before the first tensor),
        `slot` (the number of the process in the session), `descriptors` and `mappings` (that shmtensor
        keeps open in this process). For the whole session: `processes`, `arenas`, `blocks` (those held by a
        process or by an unread message), `bytes_live` (in these blocks), `bytes_reserved` (pages of all
        arenas, including their tables), `in_flight` (unread messages that refer to a tensor), `queues`
        (`st.Queue`) and `queued` (their unread messages, with and without tensors).

    Raises
    ------
    SessionError
        If the session's manager does not answer.

    Examples
    --------
    >>> import shmtensor as st
    >>> t = st.zeros(1000)
    >>> st.stats()["bytes_live"] >= 8000
    True
    """
    counted: Any = _core.stats()
    if counted is None:
        counted = dict.fromkeys(Stats.__annotations__, 0) | {"session": None, "slot": None}
    return cast("Stats", _Counters(counted))


def gc(older_than: float | None = None) -> int:
    """Reclaim unreachable memory.

    Takes back blocks that other processes freed, and returns the pages of idle memory of this process to the
    system. With `older_than`, cancels unread messages as well: every message of the session, from any
    process, that refers to a tensor and is at least that old. Loading such a message afterwards raises
    `StaleHandleError`, unless a process still holds the tensor. Choose an age longer than any message
    normally waits; the arguments of a starting process are a message, too.

    Parameters
    ----------
    older_than
        Age in seconds, exact to a second, by the monotonic clock of the kernel; 0 cancels all unread
        messages, None cancels none. Between time namespaces of containers, ages are off by their difference.

    Returns
    -------
    int
        Number of cancelled messages.

    Raises
    ------
    SessionError
        If the session's manager does not answer.
    """
    release_kept()
    if older_than is None:
        return _core.gc(float("inf"))  # no message reaches this age
    return _core.gc(float(check_range("older_than", older_than, 0)))


def set_limit(max_bytes: int | None) -> None:
    """Limit the shared memory that this process may reserve.

    An allocation that would exceed the limit raises `OutOfSharedMemory`; reserved memory stays reserved. The
    environment variable ``SHMTENSOR_MAX_BYTES`` sets the initial limit of a process.

    Parameters
    ----------
    max_bytes
        Bytes over all arenas of this process, in steps of 2 MiB; None for no limit.
    """
    _core.set_limit(_core.UNLIMITED if max_bytes is None else check_integer("max_bytes", max_bytes, 0))
