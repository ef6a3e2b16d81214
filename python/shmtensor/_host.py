"""Tensors in host memory."""

from __future__ import annotations

from typing import Any

import shmtensor._core as _core

__all__ = ["as_array"]


def as_array(value: Any) -> Any:
    """Return the NumPy array of a tensor; anything else unchanged."""
    return value.numpy() if isinstance(value, _core.TensorBase) else value
