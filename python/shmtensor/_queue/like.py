"""New memory for values of the structure of another one."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from shmtensor.creation import empty_like
from shmtensor.tensor import Tensor

__all__ = ["like"]


def like(value: Any) -> Any:
    """Return a value with uninitialized tensors and arrays in shared memory in place of those of `value`."""
    if isinstance(value, Tensor):
        return empty_like(value)
    if isinstance(value, np.ndarray):
        return empty_like(value).numpy()
    if isinstance(value, dict):
        made = value.copy()  # of the same class
        for key, item in value.items():
            made[key] = like(item)
        return made
    if isinstance(value, (list, tuple)):
        items = map(like, value)
        return type(value)._make(items) if hasattr(value, "_make") else type(value)(items)
    kind: Any = getattr(sys.modules.get("torch"), "Tensor", None)
    if kind is not None and isinstance(value, kind):
        return value.new_empty(value.shape).share_memory_()
    return value
