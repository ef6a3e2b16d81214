"""CuPy: arrays in shared memory of a GPU travel as handles; large private ones are copied into it.

An array over memory of shmtensor is recognised by its address. That of memory which another process's
library owns may overlap other ranges, so such an array is recognised by the tensor that CuPy keeps as its
owner. A message has the tensor and the function `Tensor.cupy`, which imports CuPy only when it is called.
docs/guide/with-cupy.md describes the behaviour.
"""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

import shmtensor._core as _core
from shmtensor._layout import byte_bounds
from shmtensor._threshold import is_large
from shmtensor.creation import asarray
from shmtensor.errors import CudaUnavailable
from shmtensor.integrations._tables import ReducerTable
from shmtensor.tensor import Tensor

__all__ = ["install", "uninstall"]

_reducers = ReducerTable()
uninstall = _reducers.clear


def install() -> None:
    """Register the reducer."""
    _reducers.register(cupy.ndarray, reduce_array)


def reduce_array(array: cupy.ndarray) -> Any:
    """Reduce an array to a tensor over its memory, or over a copy; a small private one as CuPy does."""
    tensor = None
    if np.dtype(array.dtype.str) == array.dtype:  # otherwise `__cuda_array_interface__` does not describe it
        tensor = _tensor_over(array)
        if tensor is None and is_large(array.nbytes):
            tensor = _copy_of(array)
    return array.__reduce__() if tensor is None else (Tensor.cupy, (tensor,))


def _tensor_over(array: cupy.ndarray) -> Tensor | None:
    """Return a tensor over the array's memory if that is shared: by its address, or by what keeps it."""
    low, high = byte_bounds(array.data.ptr, array.shape, array.strides, array.itemsize)
    storage = _core.storage_at(low, high - low)
    owner = getattr(array.data.mem, "_owner", None)
    if storage is None and isinstance(owner, Tensor) and owner.is_shared():
        storage = owner.storage()
    if storage is None:
        return None
    first = array.data.ptr - storage.data_ptr()
    return Tensor(storage, array.dtype, array.shape, array.strides, first, storage.readonly)


def _copy_of(array: cupy.ndarray) -> Tensor | None:
    try:
        return asarray(array, copy=True)
    except CudaUnavailable:  # its driver does not share virtual memory
        return None
