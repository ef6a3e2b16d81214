"""What a program can ask of its session."""

from __future__ import annotations

from typing import TypedDict

import shmtensor._core as _core
from shmtensor._values import check_size

__all__ = ["Stats", "gc", "set_limit", "stats"]


class Stats(TypedDict):
    """What `stats` returns; byte counts in bytes."""

    session: str | None
    slot: int | None
    processes: int
    arenas: int
    blocks: int
    bytes_live: int
    bytes_reserved: int
    in_flight: int
    descriptors: int
    mappings: int


_NO_SESSION = Stats(
    session=None,
    slot=None,
    processes=0,
    arenas=0,
    blocks=0,
    bytes_live=0,
    bytes_reserved=0,
    in_flight=0,
    descriptors=0,
    mappings=0,
)


def stats() -> Stats:
    """Count what the session of this process has allocated.

    Returns
    -------
    Stats
        A dict. Of this process: `session` (its id, 32 hexadecimal digits, None before the first
        tensor), `slot` (the process's number in it), `descriptors` and `mappings` (that shmtensor
        keeps open here). Of the whole session: `processes`, `arenas`, `blocks` (live, held by somebody
        or by a message in flight), `bytes_live` (in those blocks), `bytes_reserved` (pages of all
        arenas, their tables included), `in_flight` (messages that refer to a tensor and that nobody
        has loaded).

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
    counted = _core.stats()
    return _NO_SESSION.copy() if counted is None else counted


def gc(older_than: float | None = None) -> int:
    """Give back what nobody can reach any more.

    Takes back blocks that other processes freed, and gives the pages of idle memory of this process to the
    system. With an age it also forgets messages that nobody has loaded: every message of the session,
    whoever sent it, that refers to a tensor and is at least that old. Loading such a message afterwards
    raises `StaleHandleError`, unless somebody still holds the tensor. So give an age that no message of
    yours reaches; the arguments of a process that is just starting are a message, too.

    Parameters
    ----------
    older_than
        Age in seconds, exact to a second, by the kernel's monotonic clock; 0: all messages; None: forget
        none. Where containers have time namespaces, an age is off by their difference.

    Returns
    -------
    int
        How many messages were forgotten.

    Raises
    ------
    SessionError
        If the session's manager does not answer.
    """
    if older_than is None:
        return _core.gc(float("inf"))  # no message is as old
    if not older_than >= 0:
        msg = f"older_than must not be negative: {older_than!r}"
        raise ValueError(msg)
    return _core.gc(older_than)


def set_limit(max_bytes: int | None) -> None:
    """Limit the shared memory that this process may reserve.

    An allocation that would go over the limit raises `OutOfSharedMemory`; what is reserved already stays.
    The environment variable ``SHMTENSOR_MAX_BYTES`` sets the limit that a process starts with.

    Parameters
    ----------
    max_bytes
        Bytes over all arenas of this process, in steps of 2 MiB; None for no limit.
    """
    _core.set_limit(_core.UNLIMITED if max_bytes is None else check_size(max_bytes, "max_bytes"))
