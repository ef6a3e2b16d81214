"""JAX: arrays on the CPU travel as NumPy's, and arrive over shared memory.

JAX itself pickles bytes. Received memory is mapped read-only, since JAX assumes that an array never changes.
docs/guide/with-jax.md describes the behaviour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax._src.array import ArrayImpl

import shmtensor._core as _core
from shmtensor._layout import address_of
from shmtensor.integrations._tables import ReducerTable
from shmtensor.tensor import Tensor

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["install", "rebuild_array", "uninstall"]

_reducers = ReducerTable()
uninstall = _reducers.clear


def install() -> None:
    """Register the reducer."""
    _reducers.register(ArrayImpl, reduce_array)


def reduce_array(array: jax.Array) -> Any:
    """Reduce an array on one CPU device to NumPy's, over the same memory; another one as JAX does."""
    devices = array.devices()
    if len(devices) != 1 or next(iter(devices)).platform != "cpu" or array.weak_type:
        return array.__reduce__()
    elements = np.asarray(array)
    tensor = _over_shared_memory(elements)
    return rebuild_array, (elements if tensor is None else tensor,)


def rebuild_array(elements: npt.NDArray[Any] | Tensor) -> jax.Array:
    """Return an array of JAX on the CPU, over the memory of the elements if JAX can use that."""
    device = None if jax.default_backend() == "cpu" else jax.devices("cpu")[0]
    return jax.device_put(np.asarray(elements), device)


def _over_shared_memory(elements: npt.NDArray[Any]) -> Tensor | None:
    """Return a tensor over elements that JAX never changes, also in the copy that a message brought."""
    address = address_of(elements)
    storage = _core.storage_at(address, elements.nbytes) if elements.size else None
    if storage is None:
        return None
    offset = address - storage.data_ptr()
    return Tensor(storage, elements.dtype, elements.shape, elements.strides, offset, readonly=True)
