"""Tensor: dtype, shape and strides over a Storage."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np

import shmtensor._core as _core
import shmtensor._cuda.copy as _cuda
from shmtensor._cuda.foreign_arrays import CudaArray, cuda_array
from shmtensor._host import as_array
from shmtensor._tensor.missing_attributes import point_elsewhere
from shmtensor._tensor.protocols import Protocols
from shmtensor._tensor.views import Views
from shmtensor._values import device_number

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt
    from typing_extensions import Buffer, Self

    from shmtensor.storage import Storage

__all__ = ["Tensor"]


def __dir__() -> list[str]:
    return __all__


class Tensor(Views, Protocols):
    """An n-dimensional view of a `Storage`.

    Made by `shmtensor.empty` and its kin, not by this constructor, which serves to make a view of a
    storage by hand. It is no mathematics library: it views, slices, copies and converts, and lets NumPy
    compute (``tensor + 1`` is a NumPy array; ``tensor += 1`` writes into shared memory).

    Parameters
    ----------
    storage
        The bytes. The tensor keeps them alive; so does every array made from it.
    dtype
        What NumPy takes for a dtype, without Python objects in it.
    shape
        Sizes, each 0 or more.
    strides
        Bytes from one element to the next along each axis, may be 0 or negative; None for C order.
    offset
        Bytes from the beginning of the storage to the first element.
    readonly
        Refuse writes through this tensor.

    Raises
    ------
    ValueError
        If an element would lie outside of the storage.

    Notes
    -----
    Sent through `multiprocessing`, a tensor arrives with the same dtype, shape, strides, offset and
    read-only flag, over the same memory. Plain `pickle` copies its elements (protocol 5 out of band), and
    what comes back is private.
    """

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        msg = "Tensor cannot be subclassed: what arrives in another process would be a plain Tensor"
        raise TypeError(msg)

    @property
    def device(self) -> str:
        """Name of the device on which the elements lie."""
        return self.storage().device

    def is_shared(self) -> bool:
        """Do other processes that receive the tensor see what is written here?

        False for a wrapper of private memory (`from_numpy` and its kin), which is copied when it is sent.
        """
        return self.storage().is_shared()

    def share_memory_(self) -> Self:
        """Move the storage into shared memory, and with it every tensor that is a view of it.

        Copies the bytes once; does nothing if they are shared already. Arrays that were made before, and
        the object that was wrapped, keep the private memory.

        Raises
        ------
        OutOfSharedMemory
            If there is no memory; nothing has changed then.
        """
        self.storage().share_memory_()
        return self

    def clone(self) -> Tensor:
        """Return a copy in shared memory on the same device, in C order, writable."""
        if not self._on_device:
            return Tensor._copied(self.numpy())
        result = _core.empty(self.shape, self.dtype, False, _core.device_number(self.storage()))
        return result.copy_(self)

    __copy__ = clone

    def __deepcopy__(self, memo: object) -> Tensor:
        return self.clone()

    def copy_(self, source: npt.ArrayLike) -> Self:
        """Copy the elements of `source`, which is broadcast and converted as NumPy does; return self.

        Raises
        ------
        ValueError
            If the shapes do not fit, or this tensor is read-only.
        """
        if self._on_device:
            self._copy_to_device(source)
        elif isinstance(source, Tensor) and source._on_device:
            self.copy_(_cuda.to_host(source))
        elif (there := cuda_array(source)) is not None:
            raise TypeError(f"copy {there.name} to the host first, or use st.asarray")
        else:
            np.copyto(self.numpy(), as_array(source), casting="unsafe")
        return self

    def _copy_to_device(self, source: Any) -> None:
        if isinstance(source, Tensor):
            if not source._on_device:
                _cuda.from_host(self, source.numpy())
            elif source.dtype == self.dtype and source.shape == self.shape:
                _cuda.on_device(self, source)
            else:
                _cuda.from_host(self, _cuda.to_host(source))
            return
        there = source if isinstance(source, CudaArray) else cuda_array(source)
        if there is None:
            _cuda.from_host(self, source)
            return
        if there.dtype != self.dtype or there.shape != self.shape:
            msg = (
                f"a copy on the GPU needs {self.dtype} of shape {self.shape}, "
                f"not {there.dtype} of shape {there.shape}"
            )
            raise ValueError(msg)
        if there.size:
            there.wait(there.device)
            low, high = there.span()
            storage = _core.cuda_borrow(low, high - low, there.device)
            view = Tensor(storage, there.dtype, there.shape, there.strides, there.pointer - low)
            _cuda.on_device(self, view)

    def fill_(self, value: Any) -> Self:
        """Set every element to `value`, which is converted as in an assignment; return self.

        Raises
        ------
        ValueError
            If `value` cannot be broadcast to the shape, or this tensor is read-only.
        """
        if self._on_device:
            _cuda.from_host(self, value.cpu().numpy() if isinstance(value, Tensor) else value)
        else:
            self.numpy()[...] = as_array(value)
        return self

    def zero_(self) -> Self:
        """Set every element to what `zeros` has: zero, an empty string; return self."""
        return self.copy_(np.zeros((), self.dtype))

    def to(self, device: str) -> Tensor:
        """Return the tensor on `device`: itself if it is there, else a copy."""
        number = device_number(device)
        if number == _core.device_number(self.storage()):
            return self
        return _core.empty(self.shape, self.dtype, False, number).copy_(self)

    def cpu(self) -> Tensor:
        """Return the tensor in host memory: itself if it is there, else a copy."""
        return self.to("cpu")

    def cupy(self) -> Any:
        """Return a CuPy array: over the same memory for a tensor on a GPU, else copied to CuPy's device.

        Raises
        ------
        ImportError
            If CuPy is not installed.
        """
        import cupy  # type: ignore[import-not-found, unused-ignore]  # optional

        return cupy.asarray(self if self._on_device else self.numpy())

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in _ELSEWHERE]

    def __repr__(self) -> str:
        array = _cuda.to_host(self) if self._on_device else self.numpy()
        body = np.array2string(array, prefix="Tensor(", separator=", ")
        notes = [f"dtype={self.dtype}", "shared" if self.is_shared() else "private"]
        if self.size == 0:
            notes.insert(0, f"shape={self.shape}")
        if self.readonly:
            notes.append("read-only")
        if self._on_device:
            notes.append(f"device={self.device!r}")
        return f"Tensor({body}, {', '.join(notes)})"

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:
        if self._on_device:
            return _restore_on_device, (
                _cuda.to_host(self),
                self.dtype,
                self.shape,
                self.readonly,
                self.device,
            )
        flat = np.ascontiguousarray(self.numpy()).reshape(-1).view(np.uint8)
        content = pickle.PickleBuffer(flat.data) if protocol >= 5 else bytearray(flat)
        return _restore_tensor, (content, self.dtype, self.shape, self.readonly)


def _restore_tensor(content: Buffer, dtype: np.dtype[Any], shape: tuple[int, ...], readonly: bool) -> Tensor:
    storage: Storage = _core.borrow_storage(content)
    return Tensor(storage, dtype, shape, readonly=readonly)


def _restore_on_device(
    array: npt.NDArray[Any], dtype: np.dtype[Any], shape: tuple[int, ...], readonly: bool, device: str
) -> Tensor:
    tensor = _core.empty(shape, dtype, False, device_number(device)).copy_(array)
    return tensor.as_readonly() if readonly else tensor


_ELSEWHERE = point_elsewhere(Tensor)
_core.register_tensor_class(Tensor, np.ndarray)
