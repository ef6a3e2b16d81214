"""What a notebook shows of a tensor: its layout, its place, and a few elements."""

from __future__ import annotations

from typing import Any

import numpy as np

import shmtensor._core as _core
from shmtensor._backend import backend_of
from shmtensor._html import MOST_BYTES, place, size, table
from shmtensor._values import human_bytes
from shmtensor.errors import ShmTensorError

_ROWS, _COLUMNS = 6, 8


def html_of(tensor: Any) -> str:
    """Return the HTML of a tensor; reads no more than the elements that it shows."""
    if tensor._released:
        return table("Tensor", [("memory", "released")])
    storage = tensor.storage()
    whole = storage.nbytes
    facts: list[tuple[str, object]] = [
        ("shape", tensor.shape),
        ("dtype", tensor.dtype),
        ("size", size(tensor.nbytes) + ("" if whole == tensor.nbytes else f", of {size(whole)}")),
        ("device", tensor.device),
        ("memory", tensor._place() + (", read-only" if tensor.readonly else "")),
        *([("file", storage.filename)] if storage.filename is not None else []),
        *place(_core.place_of(storage)),
    ]
    return table("Tensor", facts, _elements(tensor))


def _elements(tensor: Any) -> str:
    if tensor.size == 0:
        return ""
    if tensor.itemsize > MOST_BYTES // (_ROWS * _COLUMNS):
        return f"elements of {human_bytes(tensor.itemsize)}"
    first = (0,) * (tensor.ndim - 2)
    corner = tensor[(*first, slice(_ROWS), slice(_COLUMNS))[-tensor.ndim :] if tensor.ndim else ()]
    try:
        array = backend_of(corner.storage()).to_host(corner)
    except (ShmTensorError, OSError) as error:
        return str(error)
    text = np.array2string(array, separator=", ")
    if array.size == tensor.size:
        return text
    shown = ", ".join([*map(str, first), *(f":{count}" for count in corner.shape)])
    return f"{text}\nelements [{shown}] of {tensor.size:,}"
