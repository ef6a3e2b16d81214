"""Copies, in shared memory, of NumPy arrays that joblib sends."""

from __future__ import annotations

import weakref
from functools import partial
from mmap import mmap
from typing import TYPE_CHECKING, Any

import numpy as np

import shmtensor._core as _core
from shmtensor._copies import order_of, rebuild_private
from shmtensor.creation import asarray
from shmtensor.reducers import reduce_array_out_of_band, reduce_shared

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from shmtensor.storage import Storage

    Array = npt.NDArray[Any]

_MODES = ("r", "r+", "w+", "c")
"""The modes of `np.memmap`, with which tasks use one copy."""

_COPIED = (np.ndarray, np.memmap)
"""The classes of arrays of which tasks use one copy, an array of the first class."""


def is_in_file(array: Array) -> bool:
    """Return True if the elements are in the memory of a file."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, mmap)


def can_be_copied(array: Array) -> bool:
    """Return True unless the elements are Python objects or in the memory of a file."""
    return not array.dtype.hasobject and not is_in_file(array)


def reduce_copy(array: Array, copy: Storage, *, readonly: bool) -> Any:
    """Reduce an array to its copy, which no process means to share but the receivers of this one."""
    return rebuild_copy, (copy, array.dtype, array.shape, order_of(array), readonly)


def rebuild_copy(
    copy: Storage, dtype: np.dtype[Any], shape: tuple[int, ...], order: Any, readonly: bool
) -> Array:
    """Return the array of a copy."""
    _core.mark_copy(copy)
    view = memoryview(copy)
    array: Array = np.ndarray(shape, dtype, view.toreadonly() if readonly else view, order=order)
    return array


def copy_of(array: Array) -> Storage:
    """Return a new block with the elements of an array, in the order of `reduce_copy`."""
    tensor = asarray(array.T if order_of(array) == "F" else array, copy=True)
    return tensor.storage()


class Copies:
    """Copies of arrays, each used as long as its array lives: several tasks have the same one."""

    def __init__(self) -> None:
        self._by_id: dict[int, tuple[weakref.ref[Array], Storage]] = {}

    def of(self, array: Array) -> Storage:
        """Return the copy of an array; make it if there is none."""
        known = self._by_id.get(id(array))
        if known is not None and known[0]() is array:
            return known[1]
        copy = copy_of(array)
        forget = partial(self._by_id.pop, id(array))  # the reference, its argument, is the default
        self._by_id[id(array)] = weakref.ref(array, forget), copy
        return copy

    def clear(self) -> None:
        """Release the copies."""
        self._by_id.clear()  # also breaks a cycle: the references have its method `pop`


class Arguments:
    """Reduces the arrays among the arguments of one call of `Parallel`, for the backend ``"shmtensor"``.

    Parameters
    ----------
    max_nbytes
        An array of more bytes is copied once for all tasks; None: no array is.
    mmap_mode
        As for `np.memmap`: whether workers may write such a copy, and whether each task has its own.
    reduce_in_file
        Reduces an array whose elements are in the memory of a file.
    """

    def __init__(
        self, max_nbytes: int | None, mmap_mode: str | None, reduce_in_file: Callable[[Array], Any]
    ) -> None:
        self._max_nbytes = max_nbytes
        self._mode = mmap_mode
        self._reduce_in_file = reduce_in_file
        self.copies = Copies()

    def __call__(self, array: Array) -> Any:
        """Reduce an array."""
        shared = reduce_shared(array)
        if shared is not None:
            return shared
        if is_in_file(array):
            return self._reduce_in_file(array)
        large = self._max_nbytes is not None and array.nbytes > self._max_nbytes
        if self._mode not in _MODES or not large or array.dtype.hasobject or type(array) not in _COPIED:
            return reduce_array_out_of_band(array)  # a copy of the task's own
        copy = self.copies.of(array)
        if self._mode == "c":
            return rebuild_private, (copy, array.dtype, array.shape, order_of(array))
        return reduce_copy(array, copy, readonly=self._mode == "r")
