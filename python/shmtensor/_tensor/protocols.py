"""The base class of Tensor with the protocols of NumPy, DLPack and Python's numbers."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

import shmtensor._core as _core
from shmtensor._backend import backend_of
from shmtensor._host import as_array

if TYPE_CHECKING:
    import numpy.typing as npt


class Protocols(_core.TensorBase):
    """The array protocols, DLPack and conversions to Python's numbers."""

    __slots__ = ()

    __dlpack_c_exchange_api__ = _core.dlpack_exchange_api  # DLPack without calls of Python, for extensions

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Address, shape, strides and dtype; valid while this tensor lives. Shares the memory.

        Absent for dtypes that the protocol cannot describe, such as those of ml_dtypes.
        """
        return backend_of(self.storage()).array_interface(self)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Address, shape, strides and dtype on a GPU (version 3); absent on the host. Shares the memory.

        No copy of shmtensor is running on the memory. If another process sent it with an event, the default
        stream (1) waits for that event.
        """
        return backend_of(self.storage()).cuda_array_interface(self)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return a NumPy array over the same memory; a copy only for another dtype or on request."""
        array: npt.NDArray[Any] = self.numpy()
        if copy or (dtype is not None and np.dtype(dtype) != array.dtype):
            if copy is False:
                msg = f"a conversion from {array.dtype} to {np.dtype(dtype)} needs a copy"
                raise ValueError(msg)
            return array.astype(array.dtype if dtype is None else dtype)
        return array

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any:
        """Export through DLPack, versioned if the consumer requests that. Shares the memory.

        Raises
        ------
        BufferError
            If DLPack does not have the dtype, the consumer requests another device, or the tensor is
            read-only and the consumer requests the unversioned form.
        """
        return backend_of(self.storage()).dlpack(self, stream, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's type and number of the device."""
        return backend_of(self.storage()).dlpack_device(self)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Let NumPy compute; `out`, `where` and the like may be tensors.

        A tensor in `out` is returned itself, except from a reduction, which returns its array: functions
        such as `numpy.mean` complete the result in place if it is an array of NumPy.
        """
        if method == "__call__" and not options:
            return ufunc(*map(as_array, inputs))
        if method == "at" and getattr(inputs[0], "readonly", False):
            msg = "output array is read-only"  # NumPy does not check, and the write would be a SIGSEGV
            raise ValueError(msg)
        out = options.pop("out", None)
        arrays = {name: as_array(value) for name, value in options.items()}
        if out is not None:
            arrays["out"] = tuple(as_array(item) for item in out)
        result = getattr(ufunc, method)(*(as_array(item) for item in inputs), **arrays)
        if out is None or method == "reduce":
            return result
        if len(out) == 1:
            return out[0]
        return tuple(made if given is None else given for made, given in zip(result, out, strict=True))

    def __format__(self, spec: str) -> str:
        """Format a tensor of no dimension as its element."""
        if spec and self.ndim == 0:
            return format(self.item(), spec)
        return super().__format__(spec)

    def __bool__(self) -> bool:
        return bool(self._on_host())

    def __int__(self) -> int:
        return int(self._on_host())

    def __float__(self) -> float:
        return float(self._on_host())

    def __complex__(self) -> complex:
        return complex(self._on_host())

    def __index__(self) -> int:
        return operator.index(self._on_host())

    def __contains__(self, value: object) -> bool:
        return value in self.numpy()

    def tolist(self) -> Any:
        """Return the elements as nested lists, or as one Python number if there is no dimension."""
        return self._on_host().tolist()

    def item(self, *index: int) -> Any:
        """Return one element as a Python number: the only one, or the one at `index`."""
        return self._on_host().item(*index)

    def _on_host(self) -> npt.NDArray[Any]:
        return backend_of(self.storage()).to_host(self)
