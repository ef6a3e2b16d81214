"""Copies, in shared memory, of NumPy arrays that joblib sends."""

from __future__ import annotations

import weakref
from functools import partial
from mmap import mmap
from typing import TYPE_CHECKING, Any

import numpy as np

import shmtensor._core as _core
from shmtensor.creation import asarray

if TYPE_CHECKING:
    import numpy.typing as npt

    from shmtensor.storage import Storage

    Array = npt.NDArray[Any]

__all__ = ["Copies", "can_be_copied", "copy_of", "rebuild_copy", "reduce_copy"]


def can_be_copied(array: Array) -> bool:
    """Return True unless the elements are Python objects or in the memory of a file."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return not array.dtype.hasobject and not isinstance(base, mmap)


def reduce_copy(array: Array, copy: Storage, *, readonly: bool) -> Any:
    """Reduce an array to its copy, which no process means to share but the receivers of this one."""
    return rebuild_copy, (copy, array.dtype, array.shape, _order(array), readonly)


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
    tensor = asarray(array.T if _order(array) == "F" else array, copy=True)
    return tensor.storage()


def _order(array: Array) -> str:
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


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
