"""Tensor: dtype, shape and strides over a Storage."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np

from shmtensor import _core
from shmtensor._arrays import as_array
from shmtensor._device import check_device
from shmtensor._protocols import Protocols
from shmtensor._views import Views

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
        """Return a copy in shared memory, in C order, writable."""
        return Tensor._copied(self.numpy())

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
        np.copyto(self.numpy(), as_array(source), casting="unsafe")
        return self

    def fill_(self, value: Any) -> Self:
        """Set every element to `value`, which is converted as in an assignment; return self.

        Raises
        ------
        ValueError
            If `value` cannot be broadcast to the shape, or this tensor is read-only.
        """
        self.numpy()[...] = as_array(value)
        return self

    def zero_(self) -> Self:
        """Set every element to what `zeros` has: zero, an empty string; return self."""
        return self.copy_(np.zeros((), self.dtype))

    def to(self, device: str) -> Tensor:
        """Return the tensor on `device`: itself if it is there, else a copy."""
        check_device(device)
        return self

    def cpu(self) -> Tensor:
        """Return the tensor in host memory: itself if it is there, else a copy."""
        return self.to("cpu")

    def cupy(self) -> Any:
        """Return a CuPy array with the elements, copied to CuPy's current device.

        Raises
        ------
        ImportError
            If CuPy is not installed.
        """
        import cupy  # type: ignore[import-not-found, unused-ignore]  # optional

        return cupy.asarray(self.numpy())

    def __repr__(self) -> str:
        body = np.array2string(self.numpy(), prefix="Tensor(", separator=", ")
        notes = [f"dtype={self.dtype}", "shared" if self.is_shared() else "private"]
        if self.size == 0:
            notes.insert(0, f"shape={self.shape}")
        if self.readonly:
            notes.append("read-only")
        return f"Tensor({body}, {', '.join(notes)})"

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:
        flat = np.ascontiguousarray(self.numpy()).reshape(-1).view(np.uint8)
        content = pickle.PickleBuffer(flat.data) if protocol >= 5 else bytearray(flat)
        return _restore_tensor, (content, self.dtype, self.shape, self.readonly)


def _restore_tensor(content: Buffer, dtype: np.dtype[Any], shape: tuple[int, ...], readonly: bool) -> Tensor:
    storage: Storage = _core.borrow_storage(content)
    return Tensor(storage, dtype, shape, readonly=readonly)


_core.register_tensor_class(Tensor, np.ndarray)
