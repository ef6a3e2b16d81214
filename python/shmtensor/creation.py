"""Making tensors: born shared, copied into shared memory, or wrapped around private memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from shmtensor import _core
from shmtensor._device import check_device
from shmtensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from typing_extensions import Buffer

    Shape = SupportsIndex | Sequence[SupportsIndex]

__all__ = ["asarray", "empty", "from_dlpack", "from_numpy", "frombuffer", "full", "ones", "zeros"]


def __dir__() -> list[str]:
    return __all__


def empty(shape: Shape, dtype: npt.DTypeLike | None = None, device: str = "cpu") -> Tensor:
    """Return a new tensor in shared memory, uninitialized.

    The first tensor of a process starts its session. The memory belongs to everybody who holds it: it is
    freed when no process has an object and no message in flight refers to it.

    Parameters
    ----------
    shape
        A size, or a sequence of sizes.
    dtype
        What NumPy takes for a dtype, without Python objects in it; float64 if None.
    device
        ``"cpu"``.

    Raises
    ------
    OutOfSharedMemory
        If there is no memory; the text says what is short and what to do.
    TypeError, ValueError
        For a shape or dtype that NumPy would not take.

    Examples
    --------
    >>> import shmtensor as st
    >>> st.empty((2, 3), "float32").shape
    (2, 3)
    """
    if device != "cpu":
        check_device(device)
    return _core.empty(shape, dtype, False)


def zeros(shape: Shape, dtype: npt.DTypeLike | None = None, device: str = "cpu") -> Tensor:
    """Return a new tensor in shared memory, filled with zeros. Parameters as for `empty`."""
    check_device(device)
    return _core.empty(shape, dtype, True)


def ones(shape: Shape, dtype: npt.DTypeLike | None = None, device: str = "cpu") -> Tensor:
    """Return a new tensor in shared memory, filled with ones. Parameters as for `empty`."""
    return full(shape, 1, np.float64 if dtype is None else dtype, device)


def full(shape: Shape, fill_value: Any, dtype: npt.DTypeLike | None = None, device: str = "cpu") -> Tensor:
    """Return a new tensor in shared memory, filled with `fill_value`, which is broadcast.

    Parameters as for `empty`; without a dtype, `fill_value`'s.
    """
    tensor = empty(shape, np.asarray(fill_value).dtype if dtype is None else dtype, device)
    return tensor.copy_(fill_value)


def asarray(
    obj: Any,
    dtype: npt.DTypeLike | None = None,
    device: str | None = None,
    copy: bool | None = None,
) -> Tensor:
    """Return `obj` as a tensor in shared memory.

    Parameters
    ----------
    obj
        A Tensor, or anything that `numpy.asarray` takes.
    dtype
        The result's; `obj`'s own if None.
    device
        ``"cpu"`` or None.
    copy
        None: copy unless `obj` is a shared tensor of that dtype already, which is returned itself. True:
        always copy. False: raise rather than copy.

    Returns
    -------
    Tensor
        In C order if it is a copy. The copy is made without the GIL.

    Raises
    ------
    ValueError
        If `copy` is False and a copy is needed.
    OutOfSharedMemory
        If there is no memory; the text says what is short and what to do.
    """
    if device is not None:
        check_device(device)
    if type(obj) is np.ndarray and dtype is None and copy is not False:
        short = _core.copy_in(obj)
        if short is not None:
            return short
    wanted = None if dtype is None else np.dtype(dtype)
    if isinstance(obj, Tensor) and obj.is_shared() and not copy and (wanted is None or wanted == obj.dtype):
        return obj
    if copy is False:
        msg = f"a {type(obj).__name__} cannot be shared as it is: it needs a copy"
        raise ValueError(msg)
    array = obj.numpy() if isinstance(obj, Tensor) else obj
    if wanted is None or (isinstance(array, np.ndarray) and _is_definite(wanted)):
        array = np.asarray(array)
    else:
        array = np.asarray(array, wanted)
        wanted = None
    tensor = _core.empty(array.shape, array.dtype if wanted is None else wanted, False)
    np.copyto(tensor.numpy(), array, casting="unsafe")
    return tensor


def _is_definite(dtype: np.dtype[Any]) -> bool:
    # "S", "M8" and a few more leave it to NumPy to look at the elements.
    return dtype.itemsize != 0 and dtype.subdtype is None and dtype not in (np.dtype("M8"), np.dtype("m8"))


def from_numpy(array: npt.NDArray[Any]) -> Tensor:
    """Wrap a NumPy array; nothing is copied.

    The tensor shares the array's memory, strides and read-only flag, and keeps it alive. It is private:
    ``is_shared()`` is False. Sent to another process, its storage is copied, at the time of sending and in
    the thread that sends, and the array and this tensor stay what they are.

    Raises
    ------
    TypeError
        If `array` is no NumPy array, or its dtype contains Python objects.
    """
    if not isinstance(array, np.ndarray):
        msg = f"expected a NumPy array, not a {type(array).__name__}"
        raise TypeError(msg)
    if array.dtype.hasobject:
        msg = f"cannot share dtype {array.dtype}: it contains Python objects"
        raise TypeError(msg)
    address, readonly = array.__array_interface__["data"]
    low, high = _byte_bounds(array, address)
    span = np.asarray(_Bytes(array, low, high - low, readonly))
    return Tensor(
        _core.borrow_storage(span.data), array.dtype, array.shape, array.strides, address - low, readonly
    )


def from_dlpack(x: Any) -> Tensor:
    """Wrap an object of another library that lies in host memory, through DLPack; nothing is copied.

    The tensor keeps `x`'s memory alive; for the rest see `from_numpy`.

    Raises
    ------
    AttributeError, BufferError, RuntimeError
        What `numpy.from_dlpack` raises if `x` does not support DLPack, or lies on another device.
    """
    return from_numpy(np.from_dlpack(x))


def frombuffer(buffer: Buffer, dtype: npt.DTypeLike = float, count: int = -1, offset: int = 0) -> Tensor:
    """Wrap an object that has the buffer protocol; nothing is copied.

    Parameters
    ----------
    buffer
        For example a bytes object (then the tensor is read-only), a bytearray or an mmap. It is kept
        alive, and cannot be resized meanwhile.
    dtype, count, offset
        As for `numpy.frombuffer`.
    """
    return from_numpy(np.frombuffer(memoryview(buffer), dtype, count, offset))


class _Bytes:
    """The bytes that an array's elements span, whatever its strides."""

    def __init__(self, owner: npt.NDArray[Any], address: int, size: int, readonly: bool) -> None:
        self._owner = owner
        self.__array_interface__ = {
            "version": 3,
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, readonly),
        }


def _byte_bounds(array: npt.NDArray[Any], address: int) -> tuple[int, int]:
    if array.size == 0:
        return address, address
    low = high = address
    for size, stride in zip(array.shape, array.strides, strict=True):
        reach = (size - 1) * stride
        low, high = low + min(reach, 0), high + max(reach, 0)
    return low, high + array.itemsize
