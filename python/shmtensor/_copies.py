"""Blocks with the bytes of private buffers, used again while they exist and the bytes are the same.

No process writes into such a block, and each receiver maps it privately, so several receivers can write into
what they received. The bytes are compared before a block is used again, since tasks do change arrays.

Read-only tensors become private arrays in the same way.
"""

from __future__ import annotations

import weakref
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import shmtensor._core as _core
from shmtensor._layout import address_of, byte_bounds, bytes_at
from shmtensor.errors import StaleHandleError

if TYPE_CHECKING:
    import numpy.typing as npt

    from shmtensor.storage import Storage

    Array = npt.NDArray[Any]
    Bytes = npt.NDArray[np.uint8]

_Key = tuple[int, int, int]

_handles: dict[_Key, tuple[weakref.ref[Any], bytes]] = {}
"""By the object that owns the memory, its address and size: the handle of the last copy.

A handle keeps nothing allocated: the copy lives as long as a receiver, or an unread message, has it.
"""

_SMALL = 64 * 1024  # bytes: a copy of less is faster than a mapping

_PIECE = 256 * 1024  # bytes: two pieces and the result of their comparison fit into a processor's cache


def private_view(block: Storage) -> memoryview:
    """Return the bytes of a block as private memory: what this process writes, no other process sees.

    Nothing is copied until then. The view keeps the block. If the kernel refuses the mapping, it is a copy.
    """
    try:
        return memoryview(_core.PrivateView(block))
    except OSError:
        return memoryview(np.frombuffer(memoryview(block), np.uint8).copy())


def private_bytes(content: Bytes) -> Bytes | None:
    """Return read-only bytes of a block as private memory, into which this process may write.

    Few bytes are copied, and those of a file; other pages when they are written. The result keeps the block.
    None: the bytes are not in shared memory, or the kernel refuses the mapping.
    """
    address, nbytes = address_of(content), content.nbytes
    block = _core.storage_at(address, nbytes)
    if block is None:
        return None
    private: Bytes | None = None
    if nbytes < _SMALL or block.filename is not None:
        private = content.copy()
    else:
        with suppress(OSError):
            first = address - block.data_ptr()
            private = np.frombuffer(memoryview(_core.PrivateView(block)), np.uint8)[first : first + nbytes]
    return private


def private_array(tensor: _core.TensorBase) -> Array:
    """Return what `Tensor.numpy` does if the array is to be private."""
    array = tensor.numpy()
    address = address_of(array)
    low, high = byte_bounds(address, array.shape, array.strides, array.itemsize)
    # Elements that overlap, as after `numpy.broadcast_to`, are to be written one by one.
    if not array.flags.writeable and _SMALL <= array.nbytes <= high - low:
        content = private_bytes(bytes_at(array, low, high - low, readonly=True))
        if content is not None:
            made: Array = np.ndarray(array.shape, array.dtype, content, address - low, array.strides)
            return made
    copy: Array = array.copy("K")
    return copy


def copy_of(content: Bytes) -> Storage:
    """Return a block with these bytes, into which no process writes.

    It is the block of an earlier call, or the one over which `private_view` made this memory, if that still
    exists and the program has not changed the bytes since.
    """
    owner = owner_of(content)
    if isinstance(owner, _core.PrivateView):
        known: Storage | None = owner.storage
        key = None
    else:
        key = id(owner), address_of(content), content.nbytes
        known = _find(key, owner)
    if known is not None and equal(memoryview(known), content):
        return known
    copy = _core.copy_of_buffer(content.data)
    if key is not None:
        _remember(key, owner, copy)
    return copy


def reduce_to_copy(array: Array) -> Any:
    """Reduce an array to `copy_of` its elements; each receiver has them as private memory."""
    if not array.flags.forc:
        array = array.copy()
    content = np.asarray(array).ravel(order="K").view(np.uint8)
    kind = () if type(array) is np.ndarray else (type(array),)
    return rebuild_private, (copy_of(content), array.dtype, array.shape, order_of(array), *kind)


def rebuild_private(
    copy: Storage, dtype: np.dtype[Any], shape: tuple[int, ...], order: Any, kind: type[Array] = np.ndarray
) -> Array:
    """Return the array of a copy, into which no process writes; what is written here stays in this array."""
    array: Array = np.ndarray(shape, dtype, private_view(copy), order=order)
    return array.view(kind)


def order_of(array: Array) -> str:
    """Return the order in which the elements are copied."""
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


def owner_of(content: Bytes) -> Any:
    """Return the object that owns the memory of an array."""
    owner: Any = content
    while True:
        if isinstance(owner, tuple):
            base = owner[0]  # the array over whose elements `reduce_array_out_of_band` made another
        else:
            base = owner.base if isinstance(owner, np.ndarray) else getattr(owner, "obj", None)
        if base is None:
            return owner
        owner = base


def _find(key: _Key, owner: Any) -> Storage | None:
    known = _handles.get(key)
    if known is None or known[0]() is not owner:
        return None
    try:
        with _core.ReadScope():
            return _core.rebuild_storage(known[1])
    except StaleHandleError:
        return None


def _remember(key: _Key, owner: Any, copy: Storage) -> None:
    with _core.SendScope(borrowed=True):
        handle: bytes = _core.reduce_storage(copy)[1][0]
    with suppress(TypeError):  # bytes, for example, have no weak references
        # The reference, which is the callback's argument, is the default of `pop`.
        _handles[key] = weakref.ref(owner, partial(_handles.pop, key)), handle


def equal(shared: memoryview, content: Bytes) -> bool:
    """Return True if both have the same bytes."""
    if shared.nbytes != content.nbytes:
        return False
    other = np.frombuffer(shared, np.uint8)
    if content.nbytes % 8 == address_of(content) % 8 == address_of(other) % 8 == 0:
        other, content = other.view(np.uint64), content.view(np.uint64)  # compared twice as fast
    step = _PIECE // content.itemsize
    return all(
        np.array_equal(other[first : first + step], content[first : first + step])
        for first in range(0, len(content), step)
    )
