"""How new tensors are shared, and whether NumPy arrays are."""

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

    A storage keeps the strategy it was made with, which travels in its handle: nothing is copied or
    un-shared by this. The environment variable ``SHMTENSOR_SHARING_STRATEGY`` sets the start value.

    Parameters
    ----------
    new_strategy
        ``"file_descriptor"`` (the default): anonymous memory (memfd). ``"file_system"``: named objects in
        /dev/shm, bounded by its size; keeps no descriptor open.

    Raises
    ------
    ValueError
        For another name.
    """
    _core.set_default_strategy(new_strategy)


def share_numpy(min_bytes: int | None = 0) -> None:
    """Send NumPy arrays through shared memory too, from this process and children that it starts.

    An array is copied once, when it is sent; it arrives as an array over the shared copy, whose writes the
    sender does not see. Arrays of subclasses and of dtypes with Python objects are pickled as ever.

    Parameters
    ----------
    min_bytes
        Only arrays of at least that many bytes; None switches it off again.

    Raises
    ------
    ValueError
        If `min_bytes` is negative.
    """
    reducers.share_arrays(None if min_bytes is None else check_size(min_bytes, "min_bytes"))
