"""Reducers of tensors and of NumPy's arrays, and the rule for classes of arrays.

Importing this module registers them. The tables of `_reducer_tables` do that when a tensor or an array is
first pickled: a program without either never imports NumPy.
"""

from __future__ import annotations

import operator
import pickle
import sys
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

import shmtensor._core as _core
from shmtensor._pickling import dumps
from shmtensor._reducer_tables import FORKING, MESSAGES, ArrayReducers, ForkingReducers
from shmtensor._threshold import SMALL, is_large
from shmtensor.reducers import rebuild_masked, reduce_array_out_of_band, reduce_storage
from shmtensor.storage import Storage
from shmtensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt


class _AsPickled:
    """An array that NumPy reduces, for the protocol in use."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self._array = array

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return self._array.__reduce_ex__(protocol)


def reduce_private(array: npt.NDArray[Any]) -> Any:
    """Reduce an array over private memory, for the protocol in use."""
    if array.nbytes < SMALL or pickle.DEFAULT_PROTOCOL < 5:
        return array.__reduce_ex__(4)
    return operator.getitem, ((_AsPickled(array),), 0)


def _starts_process() -> bool:
    """Return True if the arguments of a process of this package are pickled here and now."""
    context = sys.modules.get("multiprocessing.context")
    return context is not None and context.get_spawning_popen() is not None and _core.message_has_one_reader()


def _reduce_large_argument(array: npt.NDArray[Any]) -> Any:
    """Reduce a large array among the arguments of a process to a message with its buffer in shared memory.

    The standard library pickles the arguments, by a pickler that has no place for buffers.
    """
    if not is_large(array.nbytes) or not _starts_process():
        return reduce_private(array)
    return pickle.loads, (dumps(array),)


def pickles_as_ndarray(kind: type) -> bool:
    """Return True unless the class has methods of its own for pickle."""
    methods = ("__reduce__", "__reduce_ex__", "__setstate__")
    return all(getattr(kind, name) is getattr(np.ndarray, name) for name in methods)


def reducer_of_class(table: ArrayReducers, kind: type) -> Callable[[Any], Any]:
    """Return a table's reducer for a class of tensors or of NumPy's arrays, unless the class has its own.

    A class that pickles as `np.ndarray` does is reduced by the function for that class. The pickles of
    the standard library, but for arguments of our processes, have masked arrays as NumPy pickles them: their
    readers may not have this package.

    Raises
    ------
    KeyError
        If the class has its own.
    """
    if kind is Tensor:
        return FORKING.get(kind, _core.reduce_tensor)  # type: ignore[no-any-return]
    if pickles_as_ndarray(kind):
        return table.get(np.ndarray) or globals()[table.arrays]  # type: ignore[no-any-return]
    # NumPy imports it when a program uses it; another thread may be about to.
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if kind is masked and (_starts_process() or not isinstance(table, ForkingReducers)):
        return _reduce_masked
    raise KeyError(kind)


def _reduce_masked(array: np.ma.MaskedArray[Any, Any]) -> Any:
    """Reduce a masked array to what its pickle has, with two arrays in place of their bytes."""
    return rebuild_masked, (array.data, np.ma.getmaskarray(array), array.fill_value)


ARRAYS = (np.ndarray, np.recarray, np.matrix)
"""The usual classes of arrays, for tables of libraries that have no place for a rule."""

reduce_array = _core.array_reducer(reduce_private)
reduce_array_or_argument = _core.array_reducer(_reduce_large_argument)

REDUCERS: dict[type, Callable[[Any], Any]] = {
    Tensor: _core.reduce_tensor,
    Storage: reduce_storage,
    _core.OutgoingBytes: _core.reduce_outgoing_bytes,
    **dict.fromkeys(ARRAYS, reduce_array),
}

# What the program, `cuda.set_sync` or an integration has registered before stays.
for _kind, _reducer in (REDUCERS | dict.fromkeys(ARRAYS, reduce_array_or_argument)).items():
    FORKING.setdefault(_kind, _reducer)
for _kind in ARRAYS:
    MESSAGES.setdefault(_kind, reduce_array_out_of_band)
