"""Sharing strategy of new tensors, and which buffers of messages are shared."""

from __future__ import annotations

import shmtensor._core as _core
from shmtensor import _threshold
from shmtensor._values import check_integer

__all__ = [
    "get_all_sharing_strategies",
    "get_buffer_threshold",
    "get_sharing_strategy",
    "set_buffer_threshold",
    "set_sharing_strategy",
]


def get_all_sharing_strategies() -> set[str]:
    """Return the names of the sharing strategies of this platform."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """Return the strategy by which new storages of this process are shared."""
    return _core.default_strategy()


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose how new storages of this process, and of children that it starts, are shared.

    An existing storage keeps its strategy, which its handle contains: nothing is copied or un-shared. The
    environment variable ``SHMTENSOR_SHARING_STRATEGY`` sets the initial value.

    Parameters
    ----------
    new_strategy
        ``"file_descriptor"`` (the default): anonymous memory (memfd). ``"file_system"``: named objects in
        /dev/shm, limited by its size; no descriptor stays open.

    Raises
    ------
    ValueError
        If the name is unknown.
    """
    _core.set_default_strategy(new_strategy)


def get_buffer_threshold() -> int | None:
    """Return the number of bytes that `set_buffer_threshold` was last called with; at first 64 KiB."""
    return _threshold.buffer_threshold()


def set_buffer_threshold(nbytes: int | None) -> None:
    """Choose which buffers of a message travel through shared memory.

    A message of a queue, broadcast, pipe or pool of this package, the arguments of a process and the results
    of `spawn` are pickled with protocol 5. A buffer of at least `nbytes` bytes in it (of a NumPy array, a
    data frame, an Arrow table, a sparse matrix) is copied once into a new block of shared memory, and the
    received object uses the block. The sender does not see what the receiver writes into it. Among the
    arguments of a process, this holds for NumPy arrays, alone or inside other objects.

    Holds in this process and in children that it starts. Tensors, and arrays over their memory, travel as
    handles whatever the size.

    Parameters
    ----------
    nbytes
        Smallest size in bytes; a smaller buffer is copied into the message. None: all are.

    Raises
    ------
    ValueError
        If `nbytes` is negative.
    """
    _threshold.set_buffer_threshold(None if nbytes is None else check_integer("nbytes", nbytes, 0))
