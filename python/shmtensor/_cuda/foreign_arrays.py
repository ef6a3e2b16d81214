"""Arrays of other libraries on a GPU, described by `__cuda_array_interface__` or DLPack."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import shmtensor._core as _core
from shmtensor._dlpack import CUDA, CUDA_MANAGED, DEFAULT_STREAM, dtype_of
from shmtensor._layout import byte_bounds, c_strides


class CudaArray:
    """The description of an array on a GPU."""

    # A NamedTuple would take longer to import.
    __slots__ = ("dtype", "name", "owner", "pointer", "readonly", "shape", "stream", "strides")

    def __init__(  # noqa: PLR0917  # the fields
        self,
        owner: Any,
        pointer: int,
        readonly: bool,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype[Any],
        stream: int | None,
        name: str,  # of the object's class
    ) -> None:
        self.owner = owner
        self.pointer = pointer
        self.readonly = readonly
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        self.stream = stream
        self.name = name

    @property
    def device(self) -> int:
        """Number of the GPU whose memory it is, found by the address."""
        return _core.cuda_device_of(self.pointer)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def byte_bounds(self) -> tuple[int, int]:
        """Return the address of the lowest byte of any element and the end of the highest."""
        return byte_bounds(self.pointer, self.shape, self.strides, self.dtype.itemsize)

    def wait(self, device: int) -> None:
        """Block until the work that may still write the array is done."""
        if self.stream is not None:
            _core.cuda_wait_for_stream(device, self.pointer, self.stream)
        else:  # torch, for one, names no stream although work may be running
            _core.cuda_synchronize(device, self.pointer)

    def order(self, device: int) -> None:
        """Make the default stream wait for that work; a later wait for the device then includes it."""
        if self.stream is None:
            _core.cuda_synchronize(device, self.pointer)
        else:
            _core.cuda_join_stream(device, self.pointer, self.stream)


def cuda_array(obj: Any) -> CudaArray | None:
    """Return the description of an object's array, or None if it is not on a GPU.

    Raises
    ------
    ValueError
        If the object's `__cuda_array_interface__` is not valid.
    """
    if isinstance(obj, (np.ndarray, _core.TensorBase)):
        return None
    interface = getattr(obj, "__cuda_array_interface__", None)
    if interface is None:
        return dlpack_array(obj)
    if interface.get("stream") is None:  # torch names no stream there, but orders streams through DLPack
        try:
            return dlpack_array(obj) or _interface_array(obj, interface)
        except (BufferError, RuntimeError):
            return _interface_array(obj, interface)
    return _interface_array(obj, interface)


def _interface_array(obj: Any, interface: dict[str, Any]) -> CudaArray:
    if interface.get("mask") is not None:
        msg = "an array with a mask cannot be shared"
        raise ValueError(msg)
    if interface.get("stream") == 0:
        msg = "stream 0 in __cuda_array_interface__ is ambiguous; 1 is the default stream"
        raise ValueError(msg)
    descr = interface.get("descr")
    typestr = interface["typestr"]
    dtype = np.dtype([tuple(field) for field in descr]) if typestr[1] == "V" and descr else np.dtype(typestr)
    shape = tuple(int(size) for size in interface["shape"])
    strides = interface.get("strides")
    if strides is None:
        strides = c_strides(shape, dtype.itemsize)
    pointer, readonly = interface["data"]
    return CudaArray(
        obj,
        int(pointer or 0),
        bool(readonly),
        shape,
        tuple(strides),
        dtype,
        interface.get("stream"),
        type(obj).__name__,
    )


def dlpack_array(obj: Any) -> CudaArray | None:
    """Return the description that DLPack gives, or None if there is none or the array is not on a GPU.

    Afterwards the default stream waits for the work that may still write the array.

    Raises
    ------
    BufferError
        If the object cannot be exported, or has a dtype that NumPy does not know.
    """
    get_device = getattr(obj, "__dlpack_device__", None)
    if get_device is None or isinstance(obj, (np.ndarray, _core.TensorBase)):
        return None
    if int(get_device()[0]) not in {CUDA, CUDA_MANAGED}:
        return None
    return CudaArray(*imported(obj, stream=DEFAULT_STREAM), DEFAULT_STREAM, type(obj).__name__)


def imported(
    obj: Any, **options: Any
) -> tuple[Any, int, bool, tuple[int, ...], tuple[int, ...], np.dtype[Any]]:
    """Return what keeps an object's memory alive, its address, read-only flag, shape, strides and dtype."""
    try:
        capsule = obj.__dlpack__(max_version=(1, 0), **options)
    except TypeError:  # older than DLPack 1.0
        capsule = obj.__dlpack__(**options)
    owner, pointer, readonly, shape, steps, code = _core.from_dlpack(capsule)
    dtype = dtype_of(*code)
    if steps is None:
        strides = c_strides(shape, dtype.itemsize)
    else:
        strides = tuple(step * dtype.itemsize for step in steps)
    return owner, pointer, readonly, shape, strides, dtype
