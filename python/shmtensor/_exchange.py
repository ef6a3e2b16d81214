"""What DLPack's C functions (csrc/bindings/cuda/dlpack_exchange.cpp) leave to Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shmtensor import _dlpack
from shmtensor._dlpack import dtype_of
from shmtensor.creation import empty, from_dlpack

if TYPE_CHECKING:
    import numpy as np

    from shmtensor.tensor import Tensor

__all__ = ["adopt", "allocate", "code_of", "dtype_of"]


def code_of(dtype: np.dtype[Any], itemsize: int) -> int:
    """Return DLPack's type code of a dtype.

    Raises
    ------
    BufferError
        If it has none, or its number of bits has no place.
    """
    code = _dlpack.code_of(dtype)
    if code is None or itemsize >= 32:
        msg = f"DLPack has no dtype {dtype}"
        raise BufferError(msg)
    return code


class _Given:
    """An object that gives a capsule away."""

    def __init__(self, capsule: object, device: tuple[int, int]) -> None:
        self._capsule = capsule
        self._device = device

    def __dlpack__(self, **_: Any) -> object:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


def adopt(capsule: object, device: tuple[int, int]) -> Tensor:
    """Return a tensor over the memory of a capsule on a DLPack device."""
    return from_dlpack(_Given(capsule, device))


def allocate(shape: tuple[int, ...], code: int, bits: int, device: tuple[int, int]) -> Tensor:
    """Return a new tensor in shared memory.

    Raises
    ------
    BufferError
        If NumPy does not have the dtype, or shmtensor no memory on such a device.
    """
    kind, number = device
    if kind not in {_dlpack.HOST, _dlpack.CUDA}:
        msg = f"shared memory is on the host or on a GPU, not on DLPack's device {device}"
        raise BufferError(msg)
    return empty(shape, dtype_of(code, bits), "cpu" if kind == _dlpack.HOST else f"cuda:{number}")
