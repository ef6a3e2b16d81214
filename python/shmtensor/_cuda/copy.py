"""Copies into and out of tensors on a GPU, in few calls of the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

import shmtensor._core as _core
from shmtensor._layout import byte_bounds

if TYPE_CHECKING:
    from collections.abc import Callable

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_FEW = 16  # calls of the driver that are always made
_CALL = 64 << 10  # bytes that are copied to the host and back in the time of one call
_SPARSE = 8  # the bytes read for one call are at most this multiple of the elements' bytes


def to_host(tensor: Any) -> Array:
    """Return a private copy of a tensor on a GPU, in C order."""
    array = np.empty(tensor.shape, tensor.dtype)
    if not array.size:
        return array
    low, high = byte_bounds(tensor.storage_offset(), tensor.shape, tensor.strides, tensor.itemsize)
    if tensor.is_contiguous():
        _core.cuda_copy_to_host(tensor, array.ctypes.data, array.strides)
    elif high - low <= _SPARSE * array.nbytes:
        content = np.empty(high - low, np.uint8)
        whole = type(tensor)(tensor.storage(), np.uint8, content.shape, offset=low)
        _core.cuda_copy_to_host(whole, content.ctypes.data, content.strides)
        first = tensor.storage_offset() - low
        array[...] = np.ndarray(tensor.shape, tensor.dtype, content, first, tensor.strides)
    else:
        reorder = _in_memory_order(tensor.strides)
        view = _apply(reorder, tensor)
        content = np.empty(view.shape, view.dtype)
        _core.cuda_copy_to_host(view, content.ctypes.data, content.strides)
        reorder(array)[...] = content
    return array


def from_host(tensor: Any, source: Any) -> None:
    """Copy anything that NumPy accepts, broadcast and converted, to a tensor on a GPU."""
    if tensor.readonly:
        msg = "assignment destination is read-only"
        raise ValueError(msg)
    array = source if isinstance(source, np.ndarray) else np.asarray(source)
    if array.dtype != tensor.dtype:
        array = array.astype(tensor.dtype, casting="unsafe")
    if tensor.size == 0:
        np.broadcast_to(array, tensor.shape)
        return
    if array.size == 1 and tensor.size > 1 and tensor.is_contiguous():
        _core.cuda_fill(tensor, array.reshape(()).tobytes())
        return
    array = np.broadcast_to(array, tensor.shape)
    if not tensor.is_contiguous():
        reorder = _in_memory_order(tensor.strides)
        tensor, array = _apply(reorder, tensor), reorder(array)
    array = np.asarray(array, order="C")
    _core.cuda_copy_to_device(tensor, array.ctypes.data, array.strides)


def on_device(tensor: Any, source: Any) -> None:
    """Copy a tensor on a GPU to another one of its shape and dtype; they may have elements in common."""
    calls = _core.cuda_count_calls(tensor, source)
    if (calls > _FEW and calls * _CALL > tensor.nbytes) or not _core.cuda_can_copy(tensor, source):
        from_host(tensor, to_host(source))
    elif tensor.size and _core.cuda_needs_clone(tensor, source):
        device = _core.device_number(source.storage())
        separate = _core.empty(source.shape, source.dtype, False, device)
        on_device(separate, source)
        on_device(tensor, separate)
    else:
        _core.cuda_copy(tensor, source)


def _in_memory_order(strides: tuple[int, ...]) -> Callable[[Array], Array]:
    """Return a function that views any array of this many axes with its elements in memory order."""
    axes = sorted(range(len(strides)), key=lambda axis: -abs(strides[axis]))
    parts = tuple(slice(None, None, -1 if stride < 0 else 1) for stride in strides)
    key: Any = (*parts, Ellipsis)  # without the ellipsis, an array of no dimension gives an element
    return lambda array: array[key].transpose(axes)


def _apply(reorder: Callable[[Array], Array], tensor: Any) -> Any:
    layout = tensor._layout()
    return tensor._over(reorder(layout), layout)
