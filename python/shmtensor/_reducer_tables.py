"""Tables of reducers with a rule for tensors, NumPy's arrays and their subclasses.

The rule is in `_array_reducers`, which needs NumPy. The tables import it when a tensor or an array is first
pickled, so that a program without them never imports either. A program that only attaches objects does not
import `multiprocessing`.
"""

from __future__ import annotations

import copyreg
import sys
from typing import Any, ClassVar

import shmtensor._core as _core
from shmtensor._import_hook import when_imported


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


def _forking() -> dict[type, Any]:
    if "multiprocessing.reduction" not in sys.modules:
        return {}
    from multiprocessing.reduction import ForkingPickler

    table: dict[type, Any] = vars(ForkingPickler)["_extra_reducers"]
    return table


FORKING = _forking()
"""The table of `ForkingPickler.register`, from the import of `multiprocessing` on."""


def _adopt() -> None:
    from multiprocessing.reduction import ForkingPickler

    pickler: Any = ForkingPickler
    pickler._copyreg_dispatch_table = _CopyregTable
    for kind, reducer in pickler._extra_reducers.items():
        FORKING.setdefault(kind, reducer)
    pickler._extra_reducers = FORKING


when_imported("multiprocessing.reduction", _adopt)


class MessageReducers(ArrayReducers):
    """Reducers of messages, then those of `multiprocessing`, then those of `copyreg`.

    Only the first ones are fixed: `cuda.set_sync` and integrations register others with `multiprocessing`.
    """

    arrays = "reduce_array_out_of_band"

    __missing__ = _core.reducer_lookup(FORKING, copyreg.dispatch_table)


MESSAGES = MessageReducers()
"""The reducers of messages, which may return out-of-band buffers."""
