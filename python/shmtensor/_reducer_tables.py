"""Tables of reducers with a rule for tensors, NumPy's arrays and their subclasses.

The rule is in `_array_reducers`, which needs NumPy. The tables import it when a tensor or an array is first
pickled, so that a program without them never imports either.
"""

from __future__ import annotations

import copyreg
from multiprocessing.reduction import ForkingPickler
from typing import Any, ClassVar

import shmtensor._core as _core

__all__ = ["FORKING", "MESSAGES", "ArrayReducers", "ForkingReducers", "MessageReducers"]


class ArrayReducers(dict[type, Any]):
    """Reducers of classes, and of all classes of arrays.

    A subclass of NumPy's array has the reducer of `numpy.ndarray`, if the table has that.
    """

    arrays: ClassVar = "reduce_array"
    """The function of `_array_reducers` for the arrays of a table without `numpy.ndarray`."""

    __missing__ = _core.reducer_lookup({}, {})


class ForkingReducers(ArrayReducers):
    """The table of a pickler of `multiprocessing`."""

    arrays = "reduce_array_or_argument"


class _CopyregTable:
    """What each pickler of `multiprocessing` copies, before it adds `FORKING`."""

    @staticmethod
    def copy() -> ForkingReducers:
        return ForkingReducers(copyreg.dispatch_table)


_pickler: Any = ForkingPickler
_pickler._copyreg_dispatch_table = _CopyregTable
FORKING: dict[type, Any] = _pickler._extra_reducers
"""The table of `ForkingPickler.register`."""


class MessageReducers(ArrayReducers):
    """Reducers of messages, then those of `multiprocessing`, then those of `copyreg`.

    Only the first ones are fixed: `cuda.set_sync` and integrations register others with `multiprocessing`.
    """

    arrays = "reduce_array_out_of_band"

    __missing__ = _core.reducer_lookup(FORKING, copyreg.dispatch_table)


MESSAGES = MessageReducers()
"""The reducers of messages, which may return out-of-band buffers."""
