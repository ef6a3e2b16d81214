"""Tensor: dtype, shape and strides over a Storage."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np

import shmtensor._core as _core
from shmtensor._backend import backend_of
from shmtensor._tensor.missing_attributes import HidesHints, add_attribute_hints
from shmtensor._tensor.protocols import Protocols
from shmtensor._tensor.views import Views
from shmtensor._values import device_number
from shmtensor.storage import shared_memory_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt
    from typing_extensions import Buffer, Self

    from shmtensor.storage import Storage

__all__ = ["Tensor"]
__dir__ = __all__.copy


class Tensor(Views, Protocols, metaclass=HidesHints):
    """An n-dimensional view of a `Storage`.

    Use `shmtensor.empty` and the other creation functions; this constructor makes a view of an existing
    storage. A tensor views, slices, copies and converts. It is not a math library: NumPy computes
    (``tensor + 1`` is a NumPy array; ``tensor += 1`` writes into shared memory).

    Parameters
    ----------
    storage
        The bytes. The tensor keeps them alive; so does every array made from it.
    dtype
        A dtype, as in NumPy, without Python objects.
    shape
        Sizes, each 0 or more.
    strides
        Bytes from one element to the next along each axis, also 0 or negative; None for C order.
    offset
        Bytes from the start of the storage to the first element.
    readonly
        Refuse writes through this tensor.

    Raises
    ------
    ValueError
        If an element would be outside of the storage.

    Notes
    -----
    Indexing is NumPy's: integers, slices, ``...``, None and the names of fields give a view, a Tensor (of no
    dimension for a single element); index arrays and masks give a copy, a NumPy array in private memory.
    Other processes see the elements that an assignment writes.

    Sent through `multiprocessing`, a tensor arrives with the same dtype, shape, strides, offset and
    read-only flag, over the same memory. Plain `pickle` copies the elements (protocol 5: out of band), and
    the unpickled tensor is private, unless the buffer it is given is a memoryview of a tensor.
    """

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        msg = "Tensor cannot be subclassed: the subclass would be lost when sent to another process"
        raise TypeError(msg)

    @property
    def device(self) -> str:
        """Name of the device where the elements are stored."""
        return self.storage().device

    def is_shared(self) -> bool:
        """Return True if writes are visible to the processes that received the tensor.

        False for a wrapper of private memory (as from `from_numpy`), which is copied when it is sent.
        """
        return self.storage().is_shared()

    def share_memory_(self) -> Self:
        """Move the storage into shared memory, and with it every tensor that is a view of it.

        Copies the bytes once; does nothing if they are shared already. Arrays made from the tensor before,
        and the object that was wrapped, keep the private memory.

        Raises
        ------
        OutOfSharedMemory
            If there is not enough memory; nothing has changed then.
        """
        self.storage().share_memory_()
        return self

    def clone(self) -> Tensor:
        """Return a copy in shared memory on the same device, in C order, writable."""
        return backend_of(self.storage()).clone(self)  # type: ignore[no-any-return]

    copy = __copy__ = clone

    def flatten(self) -> Tensor:
        """Return a copy in shared memory along one axis, in C order."""
        return self.clone().reshape(-1)

    def __deepcopy__(self, memo: object) -> Tensor:
        return self.clone()

    def copy_(self, source: npt.ArrayLike) -> Self:
        """Copy the elements of `source`, broadcast and converted as in NumPy; return self.

        Raises
        ------
        ValueError
            If the shapes do not match, or this tensor is read-only.
        """
        backend_of(self.storage()).copy_from(self, source)
        return self

    def fill_(self, value: Any) -> Self:
        """Set every element to `value`, converted as in an assignment; return self.

        Raises
        ------
        ValueError
            If `value` cannot be broadcast to the shape, or this tensor is read-only.
        """
        backend_of(self.storage()).fill(self, value)
        return self

    def zero_(self) -> Self:
        """Fill with the dtype's zero value, such as 0 or an empty string; return self."""
        return self.copy_(np.zeros((), self.dtype))

    def to(self, device: str) -> Tensor:
        """Return the tensor itself if it is on `device`, else a copy there."""
        number = device_number(device)
        if number == _core.device_number(self.storage()):
            return self
        return _core.empty(self.shape, self.dtype, False, number).copy_(self)

    def cpu(self) -> Tensor:
        """Return the tensor itself if it is in host memory, else a copy there."""
        return self.to("cpu")

    def cupy(self) -> Any:
        """Return a CuPy array: over the same memory on a GPU, a copy on CuPy's device for a host tensor.

        Raises
        ------
        ImportError
            If CuPy is not installed.
        """
        import cupy  # type: ignore[import-not-found, unused-ignore]  # optional

        if self.device == "cpu":
            return cupy.asarray(self.numpy())
        with cupy.cuda.Device(_core.device_number(self.storage())):  # CuPy would copy to its current one
            return cupy.asarray(self)

    def __dir__(self) -> list[str]:
        absent = _MISSING | (_ON_GPU_ONLY if self._released or self.device == "cpu" else _ON_HOST_ONLY)
        return [name for name in super().__dir__() if name not in absent]

    def __repr__(self) -> str:
        if self._released:
            return "Tensor(released)"
        array = backend_of(self.storage()).to_host(self)
        body = np.array2string(array, prefix="Tensor(", separator=", ")
        notes = [f"dtype={self.dtype}", self._place()]
        if self.size == 0:
            notes.insert(0, f"shape={self.shape}")
        if self.readonly:
            notes.append("read-only")
        if self.device != "cpu":
            notes.append(f"device={self.device!r}")
        return f"Tensor({body}, {', '.join(notes)})"

    def _place(self) -> str:
        if self.is_shared():
            return "shared"
        if _core.storage_at(self.data_ptr(), min(self.nbytes, 1)) is not None:
            return "over shared memory"  # an item of a container, which is copied when it is sent
        return "private"

    def _repr_html_(self) -> str:
        from shmtensor._tensor.shown import html_of

        return html_of(self)

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:
        elements = np.ascontiguousarray(backend_of(self.storage()).to_host(self))
        flat = elements.reshape(-1).view(np.uint8)
        content = pickle.PickleBuffer(flat.data) if protocol >= 5 else bytearray(flat)
        device = () if self.device == "cpu" else (self.device,)
        return _restore_tensor, (content, self.dtype, self.shape, self.readonly, *device)


def _restore_tensor(
    content: Buffer, dtype: np.dtype[Any], shape: tuple[int, ...], readonly: bool, device: str = "cpu"
) -> Tensor:
    shared = shared_memory_of(content) if device == "cpu" else None
    if shared is not None:
        return Tensor(shared.storage(), dtype, shape, None, shared.storage_offset(), readonly)
    storage: Storage = _core.borrow_storage(content)
    if device == "cpu":
        return Tensor(storage, dtype, shape, readonly=readonly)
    tensor = Tensor(storage, dtype, shape).to(device)
    return tensor.as_readonly() if readonly else tensor


_MISSING = add_attribute_hints(Tensor)
_ON_HOST_ONLY = frozenset({"numpy", "__array__", "__array_interface__", "__buffer__"})
_ON_GPU_ONLY = frozenset({"__cuda_array_interface__"})
_core.register_tensor_class(Tensor, np.ndarray, np.integer)
