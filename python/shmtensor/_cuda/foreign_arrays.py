"""Other libraries' arrays on a GPU: what they say of themselves."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

import shmtensor._core as _core
from shmtensor._layout import byte_bounds

__all__ = ["CudaArray", "cuda_array", "dlpack_array"]


class CudaArray(NamedTuple):
    """What an object that lies on a GPU says of itself, by `__cuda_array_interface__` or DLPack."""

    owner: Any
    pointer: int
    readonly: bool
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    stream: int | None
    name: str  # of the object's class

    @property
    def device(self) -> int:
        """Number of the GPU on which it lies, whatever its maker calls that."""
        return _core.cuda_device_of(self.pointer)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def span(self) -> tuple[int, int]:
        """Return the first address of the elements and the one behind their last."""
        return byte_bounds(self.pointer, self.shape, self.strides, self.dtype.itemsize)

    def wait(self, device: int) -> None:
        """Wait for the work that the object's maker says is still under way."""
        if self.stream is not None:
            _core.cuda_wait_for_stream(device, self.stream)
        else:  # nothing was said; torch, for one, says nothing although there may be
            _core.cuda_synchronize(device)

    def order(self, device: int) -> None:
        """Let the default stream wait for that work, so that a later wait for the device covers it."""
        if self.stream is None:
            _core.cuda_synchronize(device)
        elif self.stream != _DEFAULT_STREAM:
            _core.cuda_order_streams(device, self.stream, _DEFAULT_STREAM)


_DEFAULT_STREAM = 1
_ON_GPU = {2, 13}  # DLPack's kDLCUDA, kDLCUDAManaged
_DLPACK_KINDS = {0: "i", 1: "u", 2: "f", 5: "c"}


def cuda_array(obj: Any) -> CudaArray | None:
    """Return what an object says of itself, or None if it does not lie on a GPU.

    Raises
    ------
    ValueError
        If what it says makes no sense.
    """
    if isinstance(obj, (np.ndarray, _core.TensorBase)):
        return None
    said = getattr(obj, "__cuda_array_interface__", None)
    if said is None:
        return dlpack_array(obj)
    if said.get("stream") is None:  # torch does not say what is under way there, but does so by DLPack
        try:
            return dlpack_array(obj) or _interface_array(obj, said)
        except (BufferError, RuntimeError):
            return _interface_array(obj, said)
    return _interface_array(obj, said)


def _interface_array(obj: Any, said: dict[str, Any]) -> CudaArray:
    if said.get("mask") is not None:
        msg = "an array with a mask cannot be shared"
        raise ValueError(msg)
    if said.get("stream") == 0:
        msg = "__cuda_array_interface__ says stream 0, which is ambiguous; 1 is the default stream"
        raise ValueError(msg)
    descr = said.get("descr")
    typestr = said["typestr"]
    dtype = np.dtype([tuple(field) for field in descr]) if typestr[1] == "V" and descr else np.dtype(typestr)
    shape = tuple(int(size) for size in said["shape"])
    strides = said.get("strides")
    if strides is None:
        strides = _c_strides(shape, dtype.itemsize)
    pointer, readonly = said["data"]
    return CudaArray(
        obj,
        int(pointer or 0),
        bool(readonly),
        shape,
        tuple(strides),
        dtype,
        said.get("stream"),
        type(obj).__name__,
    )


def dlpack_array(obj: Any) -> CudaArray | None:
    """Return what an object says by DLPack, or None if it does not, or lies on no GPU.

    The default stream then waits for what is under way on it.

    Raises
    ------
    BufferError
        If the object cannot be exported so, or has a dtype that NumPy does not know.
    """
    ask = getattr(obj, "__dlpack_device__", None)
    if ask is None or isinstance(obj, (np.ndarray, _core.TensorBase)) or int(ask()[0]) not in _ON_GPU:
        return None
    try:
        capsule = obj.__dlpack__(stream=_DEFAULT_STREAM, max_version=(1, 0))
    except TypeError:  # of before DLPack 1.0
        capsule = obj.__dlpack__(stream=_DEFAULT_STREAM)
    owner, pointer, readonly, shape, steps, code = _core.cuda_from_dlpack(capsule)
    dtype = _dlpack_dtype(*code)
    strides = (
        _c_strides(shape, dtype.itemsize) if steps is None else tuple(step * dtype.itemsize for step in steps)
    )
    return CudaArray(owner, pointer, readonly, shape, strides, dtype, _DEFAULT_STREAM, type(obj).__name__)


def _dlpack_dtype(code: int, bits: int) -> np.dtype[Any]:
    if bits % 8 == 0:
        try:
            if code == 4:
                return np.dtype("bfloat16")  # known where ml_dtypes is imported
            if code == 6:
                return np.dtype(np.bool_)
            return np.dtype(f"{_DLPACK_KINDS[code]}{bits // 8}")
        except (KeyError, TypeError):
            pass
    msg = f"DLPack's type {code} of {bits} bits is no dtype of NumPy"
    raise BufferError(msg)


def _c_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the strides of an array in C order."""
    strides = []
    step = itemsize
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))
