"""Reducers that send tensors, and arrays over their memory, as handles, for the pickler of `multiprocessing`.

Importing this module registers them, for every queue, pipe and pool of the process, the standard library's
own included. A process imports it when it makes its first tensor (the extension does that), or when it
receives one, since a handle names the functions here.
"""

from __future__ import annotations

import operator
import pickle
import sys
from multiprocessing import util
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

import shmtensor._core as _core
from shmtensor._core import (
    array_reducer,
    rebuild_array,
    rebuild_elements,
    rebuild_storage,
    rebuild_tensor,
    rebuild_view,
    reduce_array_apart,
    reduce_array_out_of_band,
    reduce_shared,
    reduce_storage,
    reduce_tensor,
)
from shmtensor._core import file_identity as _file_identity
from shmtensor.storage import Storage, _rebuild_file
from shmtensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

__all__ = [
    "rebuild_array",
    "rebuild_elements",
    "rebuild_masked",
    "rebuild_storage",
    "rebuild_tensor",
    "rebuild_view",
    "reduce_array_apart",
    "reduce_array_out_of_band",
    "reduce_shared",
    "reducer_of_subclass",
]


def __dir__() -> list[str]:
    return __all__


def _reduce_storage(storage: Storage) -> Any:
    if storage.filename is None:
        return reduce_storage(storage)
    identity = _file_identity(storage)
    return _rebuild_file, (storage.filename, *identity, storage.nbytes, storage.readonly)


_threshold: int | None = 64 * 1024


def buffer_threshold() -> int | None:
    """Return the number of bytes from which on the buffers of a message are in shared memory."""
    return _threshold


def is_large(nbytes: int) -> bool:
    """Return True if a buffer of so many bytes is sent in shared memory."""
    return _threshold is not None and nbytes >= max(_threshold, 1)


def set_buffer_threshold(nbytes: int | None) -> None:
    """Set that number; None for no buffer."""
    global _threshold
    _threshold = nbytes
    _core.set_large_array(*((_SMALL, _NEVER) if nbytes is None else (min(nbytes, _SMALL), max(nbytes, 1))))


# NumPy's reduction for protocol 4 serves all, and copies the elements once more than that for protocol 5, the
# default of the standard library's queues and pipes from Python 3.14 on.
_SMALL = 16 * 1024
_NEVER = 2**63 - 1
set_buffer_threshold(_threshold)


class _AsPickled:
    """An array that NumPy reduces, for the protocol in use."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self._array = array

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return self._array.__reduce_ex__(protocol)


def reduce_large(array: npt.NDArray[Any]) -> Any:
    """Reduce an array over private memory, for the protocol in use."""
    if array.nbytes < _SMALL or pickle.DEFAULT_PROTOCOL < 5:
        return array.__reduce_ex__(4)
    return operator.getitem, ((_AsPickled(array),), 0)


def _pickles_as_ndarray(kind: type) -> bool:
    methods = ("__reduce__", "__reduce_ex__", "__setstate__")
    return all(getattr(kind, name) is getattr(np.ndarray, name) for name in methods)


def reducer_of_subclass(table: dict[type, Any], kind: type) -> Callable[[Any], Any]:
    """Return the reducer of a subclass of NumPy's array for messages, unless the subclass has its own.

    A subclass that pickles as `np.ndarray` does is reduced by the table's function for that class.
    """
    if _pickles_as_ndarray(kind):
        return table[np.ndarray]  # type: ignore[no-any-return]
    masked = sys.modules.get("numpy.ma")  # NumPy imports it when a program uses it
    if masked is not None and kind is masked.MaskedArray:
        return _reduce_masked
    raise KeyError(kind)


def _reduce_masked(array: np.ma.MaskedArray[Any, Any]) -> Any:
    """Reduce a masked array to what its pickle has, with two arrays in place of their bytes."""
    return rebuild_masked, (array.data, np.ma.getmaskarray(array), array.fill_value)


def rebuild_masked(data: Any, mask: Any, fill_value: Any) -> Any:
    """Return a masked array of these arrays."""
    return np.ma.MaskedArray(data, mask, fill_value=fill_value, keep_mask=False)


ARRAYS = (np.ndarray, np.recarray, np.matrix)
"""The classes of arrays that the pickler of `multiprocessing` reduces: its table has no place for a rule."""

reduce_array = array_reducer(reduce_large)

REDUCERS: dict[type, Callable[[Any], Any]] = {
    Tensor: reduce_tensor,
    Storage: _reduce_storage,
    _core.OutgoingBytes: _core.reduce_outgoing_bytes,
    **dict.fromkeys(ARRAYS, reduce_array),
}
for _kind, _reducer in REDUCERS.items():
    ForkingPickler.register(_kind, _reducer)


def _ensure_manager_at_exit(_: object) -> None:
    # After the feeder threads of queues have written (-5): what they sent must outlive this process, so if
    # the manager was killed since, another manager is started and learns of it.
    util.Finalize(None, _core.ensure_managers, exitpriority=-100)


_ensure_manager_at_exit(None)
# A child process begins with an empty list of finalizers.
util.register_after_fork(sys.modules[__name__], _ensure_manager_at_exit)
