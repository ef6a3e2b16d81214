"""Sharing strategy of new tensors, and sharing of NumPy arrays."""

from __future__ import annotations

import shmtensor._core as _core
from shmtensor import reducers
from shmtensor._values import check_size

__all__ = [
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "share_numpy",
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


def share_numpy(min_bytes: int | None = 0) -> None:
    """Send NumPy arrays through shared memory too, from this process and children that it starts.

    An array is copied once, when it is sent; the receiver gets an array over the shared copy, and its writes
    are not visible to the sender. Subclasses and dtypes with Python objects are pickled as usual.

    Parameters
    ----------
    min_bytes
        Share only arrays of at least this size in bytes; None stops sharing.

    Raises
    ------
    ValueError
        If `min_bytes` is negative.
    """
    reducers.share_arrays(None if min_bytes is None else check_size(min_bytes, "min_bytes"))
