"""Numbers that users give, checked."""

from __future__ import annotations

import operator
from typing import SupportsIndex

__all__ = ["check_size"]


def check_size(value: SupportsIndex, name: str) -> int:
    """Return the number of bytes that the parameter `name` gives.

    Raises
    ------
    TypeError
        If it is no integer.
    ValueError
        If it is negative, or larger than anything can be.
    """
    try:
        size = operator.index(value)
    except TypeError:
        msg = f"{name} must be an integer: {value!r}"
        raise TypeError(msg) from None
    if size < 0:
        msg = f"{name} must not be negative: {value!r}"
        raise ValueError(msg)
    if size >= 1 << 63:
        msg = f"{name} is too large: {value!r}"
        raise ValueError(msg)
    return size
