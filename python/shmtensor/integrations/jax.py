"""JAX: arrays on the CPU travel as NumPy's, and arrive over shared memory.

docs/guide/with-jax.md describes the behaviour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax._src.array import ArrayImpl

from shmtensor.integrations._tables import ReducerTable

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["install", "rebuild_array", "uninstall"]

_reducers = ReducerTable()


def install() -> None:
    """Register the reducer."""
    _reducers.register(ArrayImpl, reduce_array)


def uninstall() -> None:
    """Remove it."""
    _reducers.clear()


def reduce_array(array: jax.Array) -> Any:
    """Reduce an array on one CPU device to NumPy's, over the same memory; another one as JAX does."""
    devices = array.devices()
    if len(devices) != 1 or next(iter(devices)).platform != "cpu" or array.weak_type:
        return array.__reduce__()
    return rebuild_array, (np.asarray(array),)


def rebuild_array(array: npt.NDArray[Any]) -> jax.Array:
    """Return an array of JAX on the CPU, over the memory of one of NumPy if JAX can use that."""
    device = None if jax.default_backend() == "cpu" else jax.devices("cpu")[0]
    return jax.device_put(array, device)
