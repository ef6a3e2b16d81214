"""Reducers that send tensors as handles, for the pickler of `multiprocessing`.

Importing this module registers them, for every queue, pipe and pool of the process, the standard library's
own included. A process imports it when it makes its first tensor (the extension does that), or when it
receives one, since a handle names the functions here.
"""

from __future__ import annotations

import pickle
import sys
from multiprocessing import util
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

import numpy as np

import shmtensor._core as _core
from shmtensor._core import file_identity as _file_identity
from shmtensor._core import (
    rebuild_storage,
    rebuild_tensor,
    rebuild_view,
    reduce_storage,
    reduce_tensor,
)
from shmtensor.creation import asarray
from shmtensor.storage import Storage, _rebuild_file
from shmtensor.tensor import Tensor

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["rebuild_storage", "rebuild_tensor", "rebuild_view", "share_arrays"]


def __dir__() -> list[str]:
    return __all__


def _reduce_storage(storage: Storage) -> Any:
    if storage.filename is None:
        return reduce_storage(storage)
    identity = _file_identity(storage)
    return _rebuild_file, (storage.filename, *identity, storage.nbytes, storage.readonly)


class ArrayReducer:
    """Sends NumPy arrays of at least `min_bytes` bytes through shared memory.

    The registration is the only place of this number, so that threads change both together.
    """

    def __init__(self, min_bytes: int) -> None:
        self.min_bytes = min_bytes

    def __call__(self, array: npt.NDArray[Any], protocol: int = pickle.DEFAULT_PROTOCOL) -> Any:
        """Return what a pickler needs; `protocol` is its own, which it does not pass to reducers."""
        if array.nbytes < self.min_bytes or array.dtype.hasobject:
            return array.__reduce_ex__(protocol)
        if array.flags.f_contiguous and not array.flags.c_contiguous:
            return _rebuild_array, (asarray(array.T), True, array.flags.writeable)
        return _rebuild_array, (asarray(array), False, array.flags.writeable)


def share_arrays(min_bytes: int | None) -> None:
    """Send NumPy arrays of at least `min_bytes` bytes through shared memory; None sends none of them so."""
    if min_bytes is None:
        ForkingPickler._extra_reducers.pop(np.ndarray, None)  # type: ignore[attr-defined]
    else:
        ForkingPickler.register(np.ndarray, ArrayReducer(min_bytes))


def shared_arrays() -> int | None:
    """Return the number of bytes that `share_arrays` was last called with."""
    reducer = ForkingPickler._extra_reducers.get(np.ndarray)  # type: ignore[attr-defined]
    return reducer.min_bytes if isinstance(reducer, ArrayReducer) else None


def _rebuild_array(tensor: Tensor, transposed: bool, writeable: bool) -> npt.NDArray[Any]:
    array = tensor.numpy()
    array.flags.writeable = writeable
    return array.T if transposed else array


ForkingPickler.register(Tensor, reduce_tensor)
ForkingPickler.register(Storage, _reduce_storage)


def _ensure_manager_at_exit(_: object) -> None:
    # After the feeder threads of queues have written (-5): what they sent must outlive this process, so if
    # the manager was killed since, another manager is started and learns of it.
    util.Finalize(None, _core.ensure_managers, exitpriority=-100)


_ensure_manager_at_exit(None)
# A child process begins with an empty list of finalizers.
util.register_after_fork(sys.modules[__name__], _ensure_manager_at_exit)
