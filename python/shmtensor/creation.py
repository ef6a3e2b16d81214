"""Functions that create tensors: new in shared memory, copied into it, or wrapped around private memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

import shmtensor._core as _core
from shmtensor._backend import backend_of
from shmtensor._cuda.foreign_arrays import CudaArray, cuda_array, dlpack_array
from shmtensor._host import array_of
from shmtensor._host import from_dlpack as host_from_dlpack
from shmtensor._layout import byte_bounds, bytes_at
from shmtensor._values import device_number, numpy_dtype
from shmtensor.errors import CudaError
from shmtensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
__dir__ = __all__.copy


def empty(shape: Shape, dtype: npt.DTypeLike | None = None, device: str = "cpu") -> Tensor:
    """Return a new tensor in shared memory, uninitialized.

    The first tensor of a process starts its session. No process owns the memory alone: it is freed when no
    process has an object that refers to it and no unread message does.

    Parameters
    ----------
    shape
        A size, or a sequence of sizes.
    dtype
        A dtype, as in NumPy, without Python objects; float64 if None.
    device
        ``"cpu"``, or a GPU: ``"cuda:0"``; ``"cuda"`` is the first.

    Raises
    ------
    OutOfSharedMemory
        If there is not enough memory; the text names the limit and the remedy.
    CudaUnavailable
        If there is no such GPU in this process.
    TypeError, ValueError
        For a shape or dtype that NumPy would not accept.

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

    Parameters as for `empty`; the default dtype is that of `fill_value`.
    """
    tensor = empty(shape, np.asarray(fill_value).dtype if dtype is None else dtype, device)
    return tensor.copy_(fill_value)


def empty_like(obj: Any, dtype: npt.DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return a new tensor in shared memory, uninitialized, in C order, of the shape of `obj`.

    Parameters
    ----------
    obj
        A Tensor, or anything that `numpy.asarray` accepts.
    dtype, device
        Those of the result; None: those of `obj`. The device of an object that is not a Tensor is ``"cpu"``.

    Raises
    ------
    OutOfSharedMemory, CudaUnavailable
        As `empty`.

    See Also
    --------
    numpy.empty_like : accepts tensors too, and returns a private array.

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

    Parameters as for `empty_like`; the default dtype is that of `obj`.
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
        A Tensor, or anything that `numpy.asarray` accepts.
    dtype
        The dtype of the result; None: the dtype of `obj`.
    device
        ``"cpu"``, ``"cuda:0"`` and so on; None: the device of `obj`.
    copy
        None: copy only if necessary. A shared tensor of that dtype and device is returned itself; an array
        of another library on a GPU is exported zero-copy if its memory permits that. True: always copy.
        False: raise an error if a copy is necessary.

    Returns
    -------
    Tensor
        In C order if it is a copy. The copy is made without the GIL.

    Raises
    ------
    ValueError
        If `copy` is False and a copy is necessary.
    OutOfSharedMemory
        If there is not enough memory; the text names the limit and the remedy.
    """
    number = None if device is None else device_number(device)
    if type(obj) is np.ndarray and dtype is None and copy is not False and (number is None or number < 0):
        tensor = _core.copy_in(obj)
        if tensor is not None:
            return tensor
    request = _Request(None if dtype is None else numpy_dtype(dtype), number, copy)
    for case in _CASES:
        tensor = case(obj, request)
        if tensor is not None:
            return tensor
    return _copy_object(obj, request)


class _Request:
    """The dtype, device and copying that `asarray` was called with; None leaves the choice to the object."""

    __slots__ = ("copy", "device", "dtype")  # a NamedTuple takes longer to import

    def __init__(self, dtype: np.dtype[Any] | None, device: int | None, copy: bool | None) -> None:
        self.dtype = dtype
        self.device = device
        self.copy = copy

    def accepts(self, dtype: np.dtype[Any]) -> bool:
        return self.dtype is None or self.dtype == dtype  # not `in`: float64 equals None

    def accepts_device(self, device: int) -> bool:
        return self.device is None or self.device == device

    def device_or(self, default: int) -> int:
        return default if self.device is None else self.device


def _same_tensor(obj: Any, request: _Request) -> Tensor | None:
    """Return a shared tensor itself if it has the requested dtype and device."""
    if not isinstance(obj, Tensor) or request.copy or not obj.is_shared() or not request.accepts(obj.dtype):
        return None
    return obj if request.accepts_device(_core.device_number(obj.storage())) else None


def _foreign_array(obj: Any, request: _Request) -> Tensor | None:
    """Share, or copy, an array of another library on a GPU."""
    foreign = cuda_array(obj)
    return None if foreign is None else _from_foreign(foreign, request)


def _gpu_tensor(obj: Any, request: _Request) -> Tensor | None:
    """Copy a tensor on a GPU; to another dtype by way of the host."""
    here = _core.device_number(obj.storage()) if isinstance(obj, Tensor) else -1
    if here < 0:
        return None
    _check_copy(obj, request)
    device = request.device_or(here)
    if request.accepts(obj.dtype):
        return _core.empty(obj.shape, obj.dtype, False, device).copy_(obj)
    return _copy_object(obj, _Request(request.dtype, device, request.copy))


_CASES: tuple[Callable[[Any, _Request], Tensor | None], ...] = (_same_tensor, _foreign_array, _gpu_tensor)


def _copy_object(obj: Any, request: _Request) -> Tensor:
    """Copy any other object, by way of `numpy.asarray`."""
    _check_copy(obj, request)
    array = backend_of(obj.storage()).to_host(obj) if isinstance(obj, Tensor) else obj
    dtype = request.dtype
    if dtype is None or (isinstance(array, np.ndarray) and _is_definite(dtype)):
        array = array_of(array)
    else:
        array = np.asarray(array, dtype)
        dtype = None
    dtype = array.dtype if dtype is None else dtype
    tensor = _core.empty(array.shape, dtype, False, request.device_or(-1))
    return tensor.copy_(array)


def _check_copy(obj: Any, request: _Request) -> None:
    if request.copy is False:
        msg = f"this {type(obj).__name__} cannot be shared without a copy"
        raise ValueError(msg)


def _from_foreign(foreign: CudaArray, request: _Request) -> Tensor:
    if foreign.size == 0:
        dtype = foreign.dtype if request.dtype is None else request.dtype
        return _core.empty(foreign.shape, dtype, False, request.device or 0)
    low, high = foreign.byte_bounds()
    device, exportable, obstacle = _core.cuda_pointer_facts(low, high - low)
    if not request.accepts_device(device):
        obstacle = f"it is on cuda:{device}"
    elif not request.accepts(foreign.dtype):
        obstacle = f"it has dtype {foreign.dtype}"
    elif exportable and not request.copy:
        try:
            return _export(foreign, device, low, high)
        except CudaError as error:
            obstacle = str(error)
    if request.copy is False:
        msg = f"this {foreign.name} cannot be shared without a copy: {obstacle}"
        raise ValueError(msg)
    tensor = _core.empty(foreign.shape, foreign.dtype, False, device)
    backend_of(tensor.storage()).copy_from(tensor, foreign)
    if request.accepts(foreign.dtype) and request.accepts_device(device):
        return tensor
    return _copy_object(tensor, _Request(request.dtype, request.device_or(device), copy=None))


def _export(foreign: CudaArray, device: int, low: int, high: int) -> Tensor:
    """Share the array's own memory, of which the elements take the bytes from `low` to `high`."""
    from shmtensor._cuda.ipc_exports import export

    foreign.order(device)
    storage = export(low, high - low, foreign.owner)
    return Tensor(
        storage, foreign.dtype, foreign.shape, foreign.strides, foreign.pointer - low, foreign.readonly
    )


def _is_definite(dtype: np.dtype[Any]) -> bool:
    # For "S", "M8" and a few more, NumPy chooses the dtype by the elements.
    return dtype.itemsize != 0 and dtype.subdtype is None and dtype not in (np.dtype("M8"), np.dtype("m8"))


def from_numpy(array: npt.NDArray[Any]) -> Tensor:
    """Wrap a NumPy array; nothing is copied.

    The tensor shares the array's memory, strides and read-only flag, and keeps it alive. It is private:
    ``is_shared()`` is False. When it is sent to another process, the sending thread copies its storage; the
    array and this tensor do not change.

    Raises
    ------
    TypeError
        If `array` is not a NumPy array, or its dtype contains Python objects.
    """
    if not isinstance(array, np.ndarray):
        msg = f"expected a NumPy array, not a {type(array).__name__}"
        raise TypeError(msg)
    if array.dtype.hasobject:
        msg = f"cannot share dtype {array.dtype}: it contains Python objects"
        raise TypeError(msg)
    address, readonly = array.__array_interface__["data"]
    low, high = byte_bounds(address, array.shape, array.strides, array.itemsize)
    span = bytes_at(array, low, high - low, readonly)
    return Tensor(
        _core.borrow_storage(span.data), array.dtype, array.shape, array.strides, address - low, readonly
    )


def from_dlpack(x: Any) -> Tensor:
    """Wrap an object of another library, through DLPack; nothing is copied.

    The tensor keeps the memory of `x` alive. In host memory the tensor is private, as with `from_numpy`; on
    a GPU the memory is exported zero-copy, as with `asarray`.

    Raises
    ------
    AttributeError, BufferError, RuntimeError
        As from `numpy.from_dlpack`, if `x` does not support DLPack or is on another kind of device.
    ValueError
        If `x` is on a GPU, in memory that cannot be exported.
    CudaError
        If `x` is on a GPU that this process cannot use.
    """
    foreign = dlpack_array(x)
    if foreign is None:
        return from_numpy(host_from_dlpack(x))
    return _from_foreign(foreign, _Request(None, None, copy=False))


def frombuffer(buffer: Buffer, dtype: npt.DTypeLike = float, count: int = -1, offset: int = 0) -> Tensor:
    """Wrap an object that has the buffer protocol; nothing is copied.

    Parameters
    ----------
    buffer
        For example a bytes object (the tensor is then read-only), a bytearray or an mmap. The tensor keeps
        it alive, and it cannot be resized while the tensor lives.
    dtype, count, offset
        As for `numpy.frombuffer`.
    """
    return from_numpy(np.frombuffer(memoryview(buffer), dtype, count, offset))
