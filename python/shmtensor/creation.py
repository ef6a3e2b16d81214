"""Making tensors: born shared, copied into shared memory, or wrapped around private memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

import shmtensor._core as _core
import shmtensor._cuda.copy as _cuda
from shmtensor._cuda.foreign_arrays import CudaArray, cuda_array, dlpack_array
from shmtensor._layout import byte_bounds
from shmtensor._values import device_number
from shmtensor.errors import CudaError
from shmtensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from typing_extensions import Buffer

    Shape = SupportsIndex | Sequence[SupportsIndex]

__all__ = [
    "asarray",
    "empty",
    "empty_like",
    "from_dlpack",
    "from_numpy",
    "frombuffer",
    "full",
    "full_like",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]


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
        ``"cpu"``, or a GPU: ``"cuda:0"``, ``"cuda"`` for the first.

    Raises
    ------
    OutOfSharedMemory
        If there is no memory; the text says what is short and what to do.
    CudaUnavailable
        If there is no such GPU in this process.
    TypeError, ValueError
        For a shape or dtype that NumPy would not take.

    Examples
    --------
    >>> import shmtensor as st
    >>> st.empty((2, 3), "float32").shape
    (2, 3)
    """
    if device != "cpu":
        return _core.empty(shape, dtype, False, device_number(device))
    return _core.empty(shape, dtype, False)


def zeros(shape: Shape, dtype: npt.DTypeLike | None = None, device: str = "cpu") -> Tensor:
    """Return a new tensor in shared memory, filled with zeros. Parameters as for `empty`."""
    return _core.empty(shape, dtype, True, device_number(device))


def ones(shape: Shape, dtype: npt.DTypeLike | None = None, device: str = "cpu") -> Tensor:
    """Return a new tensor in shared memory, filled with ones. Parameters as for `empty`."""
    return full(shape, 1, np.float64 if dtype is None else dtype, device)


def full(shape: Shape, fill_value: Any, dtype: npt.DTypeLike | None = None, device: str = "cpu") -> Tensor:
    """Return a new tensor in shared memory, filled with `fill_value`, which is broadcast.

    Parameters as for `empty`; without a dtype, `fill_value`'s.
    """
    tensor = empty(shape, np.asarray(fill_value).dtype if dtype is None else dtype, device)
    return tensor.copy_(fill_value)


def empty_like(obj: Any, dtype: npt.DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return a new tensor in shared memory, uninitialized, in C order, of the shape of `obj`.

    Parameters
    ----------
    obj
        A Tensor, or anything that `numpy.asarray` takes.
    dtype, device
        The result's; `obj`'s own if None. What is no Tensor lies on ``"cpu"``.

    Raises
    ------
    OutOfSharedMemory, CudaUnavailable
        As `empty`.

    See Also
    --------
    numpy.empty_like : takes tensors too, and gives a private array.

    Examples
    --------
    >>> import shmtensor as st
    >>> st.empty_like(st.zeros((2, 3), "float32")).dtype
    dtype('float32')
    """
    return empty(*_like(obj, dtype, device))


def zeros_like(obj: Any, dtype: npt.DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return a new tensor in shared memory, filled with zeros. Parameters as for `empty_like`."""
    return zeros(*_like(obj, dtype, device))


def ones_like(obj: Any, dtype: npt.DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return a new tensor in shared memory, filled with ones. Parameters as for `empty_like`."""
    return ones(*_like(obj, dtype, device))


def full_like(
    obj: Any, fill_value: Any, dtype: npt.DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """Return a new tensor in shared memory, filled with `fill_value`, which is broadcast and converted.

    Parameters as for `empty_like`; without a dtype, `obj`'s.
    """
    shape, dtype, device = _like(obj, dtype, device)
    return full(shape, fill_value, dtype, device)


def _like(
    obj: Any, dtype: npt.DTypeLike | None, device: str | None
) -> tuple[tuple[int, ...], npt.DTypeLike, str]:
    model = obj if isinstance(obj, Tensor) else np.asarray(obj)
    if device is None:
        device = model.device if isinstance(model, Tensor) else "cpu"
    return model.shape, model.dtype if dtype is None else dtype, device


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
        ``"cpu"``, ``"cuda:0"`` and so on; None: where `obj` lies.
    copy
        None: copy unless `obj` is a shared tensor of that dtype already, which is returned itself, or an
        array of another library on a GPU whose memory can be shared where it lies. True: always copy.
        False: raise rather than copy.

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
    number = None if device is None else device_number(device)
    if type(obj) is np.ndarray and dtype is None and copy is not False and (number is None or number < 0):
        short = _core.copy_in(obj)
        if short is not None:
            return short
    wanted = None if dtype is None else np.dtype(dtype)
    if isinstance(obj, Tensor) and obj.is_shared() and not copy and (wanted is None or wanted == obj.dtype):
        there = _core.device_number(obj.storage())
        if number in {None, there}:
            return obj
    foreign = cuda_array(obj)
    if foreign is not None:
        return _from_cuda(foreign, wanted, number, copy)
    if copy is False:
        msg = f"a {type(obj).__name__} cannot be shared as it is: it needs a copy"
        raise ValueError(msg)
    if isinstance(obj, Tensor) and obj.device != "cpu":
        return _copy_of_gpu(obj, wanted, device, number)
    if number is not None and number >= 0:
        array = np.asarray(obj.numpy() if isinstance(obj, Tensor) else obj, wanted)
        return _core.empty(array.shape, array.dtype, False, number).copy_(array)
    array = obj.numpy() if isinstance(obj, Tensor) else obj
    if wanted is None or (isinstance(array, np.ndarray) and _is_definite(wanted)):
        array = np.asarray(array)
    else:
        array = np.asarray(array, wanted)
        wanted = None
    tensor = _core.empty(array.shape, array.dtype if wanted is None else wanted, False)
    np.copyto(tensor.numpy(), array, casting="unsafe")
    return tensor


def _copy_of_gpu(tensor: Tensor, wanted: Any, device: str | None, number: int | None) -> Tensor:
    if wanted is None or wanted == tensor.dtype:
        source = _core.device_number(tensor.storage())
        return _core.empty(tensor.shape, tensor.dtype, False, source if number is None else number).copy_(
            tensor
        )
    return asarray(_cuda.to_host(tensor), wanted, tensor.device if device is None else device)


def _from_cuda(there: CudaArray, wanted: Any, number: int | None, copy: bool | None) -> Tensor:
    if there.size == 0:
        return _core.empty(there.shape, there.dtype if wanted is None else wanted, False, number or 0)
    low, high = there.span()
    device, exportable, kind = _core.cuda_pointer_facts(low, high - low)
    reason = kind
    if number is not None and number != device:
        reason = f"it lies on cuda:{device}"
    elif wanted is not None and wanted != there.dtype:
        reason = f"it has dtype {there.dtype}"
    elif exportable and not copy:
        from shmtensor._cuda.ipc_exports import export

        there.order(device)
        try:
            storage = export(low, high - low, there.owner)
        except CudaError as error:
            reason = str(error)
        else:
            offset = there.pointer - low
            return Tensor(storage, there.dtype, there.shape, there.strides, offset, there.readonly)
    if copy is False:
        msg = f"a {there.name} cannot be shared where it lies: {reason}; it needs a copy"
        raise ValueError(msg)
    target = _core.empty(there.shape, there.dtype, False, device)
    target._copy_to_device(there)
    if (wanted is None or wanted == there.dtype) and number in {None, device}:
        return target
    host = _cuda.to_host(target)
    if wanted is not None:
        host = host.astype(wanted)
    return _core.empty(host.shape, host.dtype, False, device if number is None else number).copy_(host)


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
    low, high = byte_bounds(address, array.shape, array.strides, array.itemsize)
    span = np.asarray(_Bytes(array, low, high - low, readonly))
    return Tensor(
        _core.borrow_storage(span.data), array.dtype, array.shape, array.strides, address - low, readonly
    )


def from_dlpack(x: Any) -> Tensor:
    """Wrap an object of another library, through DLPack; nothing is copied.

    The tensor keeps `x`'s memory alive. In host memory it is private, as with `from_numpy`; on a GPU it is
    shared where it lies, as with `asarray`.

    Raises
    ------
    AttributeError, BufferError, RuntimeError
        What `numpy.from_dlpack` raises if `x` does not support DLPack, or lies on another device.
    ValueError
        If it lies on a GPU, in memory that cannot be shared where it lies.
    CudaError
        If it lies on a GPU, and this process cannot use that one.
    """
    there = dlpack_array(x)
    return from_numpy(np.from_dlpack(x)) if there is None else _from_cuda(there, None, None, False)


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
