"""Numbers, dtypes and names of devices: checked where users give them, formatted where they read them."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

if TYPE_CHECKING:
    import numpy as np

Number = TypeVar("Number", int, float)

NO_LIMIT = 2**62  # bytes: from this number on, the limit of a queue is none
_LARGEST = 2**63 - 1  # of a size in bytes, and of the extension's integers


def check_number(name: str, value: Number) -> Number:
    """Return the number that the parameter `name` gives.

    Raises
    ------
    TypeError
        If the value cannot be compared with a number.
    """
    try:
        operator.lt(value, 0)
    except TypeError:
        msg = f"{name} must be a number, not {value!r}"
        raise TypeError(msg) from None
    return value


def check_range(name: str, value: Number, low: int, high: float = math.inf) -> Number:
    """Return the number that the parameter `name` gives.

    Raises
    ------
    TypeError
        As `check_number`.
    ValueError
        If it is not from `low` to `high`, or NaN.
    """
    if low <= check_number(name, value) <= high:
        return value
    limits = f"at least {low}" if high >= _LARGEST and not value > high else f"from {low} to {high}"
    msg = f"{name} must be {limits}, not {value}"
    raise ValueError(msg)


def check_integer(name: str, value: SupportsIndex, low: int = -_LARGEST, high: int = _LARGEST) -> int:
    """Return the integer that the parameter `name` gives.

    Raises
    ------
    TypeError
        If the value is not an integer.
    ValueError
        If it is not from `low` to `high`.
    """
    try:
        number = operator.index(value)
    except TypeError:
        msg = f"{name} must be an integer, not {value!r}"
        raise TypeError(msg) from None
    return check_range(name, number, low, high)


def check_limit(value: SupportsIndex | None, name: str) -> int:
    """Return the number of bytes that the parameter `name` permits; 0 for None, no limit.

    Raises
    ------
    TypeError, ValueError
        As `check_integer`, from 1 on.
    """
    return 0 if value is None else check_integer(name, value, 1)


def device_number(device: str) -> int:
    """Return the number of a GPU, or -1 for the host.

    Raises
    ------
    ValueError
        If `device` is not the name of a device.
    """
    if device == "cpu":
        return -1
    if device == "cuda":
        return 0
    kind, colon, digits = device.partition(":") if isinstance(device, str) else ("", "", "")
    if kind == "cuda" and colon and digits.isascii() and digits.isdigit() and len(digits) < 4:
        return int(digits)
    msg = f"device {device!r} is unknown: there are 'cpu', 'cuda' and 'cuda:0', 'cuda:1' and so on"
    raise ValueError(msg)


def numpy_dtype(value: Any) -> np.dtype[Any]:
    """Return `numpy.dtype(value)`.

    Raises
    ------
    TypeError
        As NumPy, with the remedy for sizes that are not in one argument, and for dtypes of torch.
    """
    import numpy as np

    try:
        dtype: np.dtype[Any] = np.dtype(value)
    except TypeError as error:
        if isinstance(value, int):
            remedy = "a shape of several sizes is one argument, such as (3, 4)"
        elif type(value).__module__ == "torch":
            remedy = f"use its name, {str(value).removeprefix('torch.')!r}"
        else:
            raise
        msg = f"{error}; {remedy}"
        raise TypeError(msg) from None
    return dtype


def human_bytes(nbytes: float) -> str:
    """Return a size in the unit that fits, as in ``505.1 MiB``."""
    for unit in ("B", "KiB", "MiB"):
        if abs(nbytes) < 1024:
            return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.1f} {unit}"
        nbytes /= 1024
    return f"{nbytes:.1f} GiB"
