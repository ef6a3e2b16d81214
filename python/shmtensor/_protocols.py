"""The half of Tensor that other libraries see: the array protocols, arithmetic, conversions."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from shmtensor import _core
from shmtensor._arrays import as_array

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Protocols"]


class Protocols(_core.TensorBase, NDArrayOperatorsMixin):
    """NumPy's protocols, DLPack, Python's numbers. Arithmetic is NumPy's and gives NumPy arrays."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # == compares the elements, as in NumPy

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Address, shape, strides and dtype; valid while this tensor lives. Shares the memory.

        Not there for dtypes that the protocol cannot spell, such as those of ml_dtypes.
        """
        interface: dict[str, Any] = self.numpy().__array_interface__
        if _spelled_dtype(interface) != self.dtype:
            msg = f"dtype {self.dtype} has no spelling in __array_interface__"
            raise AttributeError(msg)
        return interface

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return a NumPy array over the same memory; a copy only for another dtype or on demand."""
        array = self.numpy()
        if copy or (dtype is not None and np.dtype(dtype) != array.dtype):
            if copy is False:
                msg = f"a conversion from {array.dtype} to {np.dtype(dtype)} needs a copy"
                raise ValueError(msg)
            return array.astype(array.dtype if dtype is None else dtype)
        return array

    def __dlpack__(self, **options: Any) -> Any:
        """Export through DLPack, versioned if the consumer asks for that. Shares the memory.

        Raises
        ------
        BufferError
            For a dtype that DLPack does not have, or a read-only tensor and a consumer that asks for
            the unversioned form.
        """
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's (type, number) of the device."""
        return (1, 0)  # kDLCPU

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Let NumPy compute; `out` may be tensors, which are then returned."""
        if method == "at" and getattr(inputs[0], "readonly", False):
            msg = "output array is read-only"  # NumPy writes without asking, and here that is a SIGSEGV
            raise ValueError(msg)
        out = options.get("out")
        if out is not None:
            options["out"] = tuple(as_array(item) for item in out)
        result = getattr(ufunc, method)(*(as_array(item) for item in inputs), **options)
        if out is None:
            return result
        if len(out) == 1:
            return out[0]
        return tuple(made if given is None else given for made, given in zip(result, out, strict=True))

    # Not through the ufuncs, which know neither structured dtypes nor strings beside numbers.

    def __eq__(self, other: object) -> Any:
        return self.numpy() == as_array(other)

    def __ne__(self, other: object) -> Any:
        return self.numpy() != as_array(other)

    def __format__(self, spec: str) -> str:
        """Format the element of a tensor of no dimension, as a number is."""
        if spec and self.ndim == 0:
            return format(self.item(), spec)
        return super().__format__(spec)

    def __bool__(self) -> bool:
        return bool(self.numpy())

    def __int__(self) -> int:
        return int(self.numpy())

    def __float__(self) -> float:
        return float(self.numpy())

    def __complex__(self) -> complex:
        return complex(self.numpy())

    def __index__(self) -> int:
        return operator.index(self.numpy())

    def __contains__(self, value: object) -> bool:
        return value in self.numpy()

    def tolist(self) -> Any:
        """Return the elements as nested Python lists, or one Python number for no dimension."""
        return self.numpy().tolist()

    def item(self, *index: int) -> Any:
        """Return one element as a Python number: the only one, or the one at `index`."""
        return self.numpy().item(*index)


def _spelled_dtype(interface: dict[str, Any]) -> np.dtype[Any] | None:
    plain = [field[0] for field in interface["descr"]] == [""]
    try:
        spelled: np.dtype[Any] = np.dtype(interface["typestr" if plain else "descr"])
    except (TypeError, ValueError):
        return None
    return spelled
