"""The half of Tensor that makes views: nothing here copies unless it says so."""

from __future__ import annotations

import math
import operator
from types import EllipsisType
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

import shmtensor._core as _core
from shmtensor._host import as_array
from shmtensor._layout import strides_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt
    from typing_extensions import Self

    Array = npt.NDArray[Any]

__all__ = ["Views"]


def _is_basic(part: object) -> bool:
    return part is None or (isinstance(part, (int, slice, EllipsisType)) and not isinstance(part, bool))


def _is_fields(key: object) -> bool:
    return isinstance(key, str) or (isinstance(key, list) and all(isinstance(name, str) for name in key))


def _plain(part: Any) -> Any:
    """Return what NumPy shall see of one part of an index: an int wherever it takes one for an int."""
    part = as_array(part)
    if isinstance(part, np.ndarray):
        return int(part) if part.ndim == 0 and part.dtype.kind in "iu" else part
    if isinstance(part, (bool, np.bool_)) or not hasattr(part, "__index__"):
        return part
    return operator.index(part)


def _plain_key(key: Any) -> Any:
    return tuple(map(_plain, key)) if isinstance(key, tuple) else _plain(key)


def _is_view(result: Any, array: Array) -> bool:
    return isinstance(result, np.ndarray) and result.base is array


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


class Views(_core.TensorBase):
    """Reshaping, slicing, transposing."""

    __slots__ = ()

    def _over(self, view: Array, base: Array, *, readonly: bool | None = None) -> Self:
        """Make the tensor for a NumPy view of this tensor's array `base`."""
        offset = self.storage_offset()
        if view.size != 0:
            offset += _address(view) - _address(base)
        return type(self)(
            self.storage(),
            view.dtype,
            view.shape,
            view.strides,
            offset,
            self.readonly if readonly is None else readonly,
        )

    @property
    def T(self) -> Self:  # noqa: N802  # NumPy's name
        """View with the axes reversed."""
        return self.transpose()

    def transpose(self, *axes: SupportsIndex) -> Self:
        """Return a view with the axes permuted.

        Parameters
        ----------
        *axes
            The new order of the axes; none of them reverses all.

        Raises
        ------
        ValueError
            If `axes` is no permutation of them.
        """
        array = self._layout()
        return self._over(array.transpose(*axes), array)

    def reshape(self, *shape: SupportsIndex | Sequence[SupportsIndex]) -> Self:
        """Return the elements in another shape.

        A view where strides allow it, else a copy in shared memory, as NumPy does. One size may be -1.

        Raises
        ------
        ValueError
            If the number of elements differs.
        """
        if self._on_device:
            view = self._reshaped(*shape)
            return self.clone().reshape(*shape) if view is None else view
        array = self.numpy()
        result = array.reshape(*shape)  # type: ignore[arg-type]  # NumPy's own overloads check
        if _is_view(result, array) or self.size == 0:
            return self._over(result, array)
        return type(self)._copied(result)

    def clone(self) -> Self:
        """Return a copy in shared memory on the same device, in C order, writable."""
        raise NotImplementedError  # Tensor's

    @property
    def _on_device(self) -> bool:
        return _core.device_number(self.storage()) >= 0

    def _reshaped(self, *shape: Any) -> Self | None:
        """Reshape without looking at an element; None if that takes a copy."""
        given = shape[0] if len(shape) == 1 and not hasattr(shape[0], "__index__") else shape
        sizes = [operator.index(size) for size in given]
        if sizes.count(-1) == 1 and min(sizes, default=0) >= -1:
            others = math.prod(size for size in sizes if size != -1)
            if others == 0 or self.size % others:
                msg = f"cannot reshape array of size {self.size} into shape {tuple(sizes)}"
                raise ValueError(msg)
            sizes[sizes.index(-1)] = self.size // others
        if min(sizes, default=0) < 0 or math.prod(sizes) != self.size:
            msg = f"cannot reshape array of size {self.size} into shape {tuple(sizes)}"
            raise ValueError(msg)
        if self.size == 0:
            return type(self)(self.storage(), self.dtype, sizes, None, self.storage_offset(), self.readonly)
        strides = strides_for(self.shape, self.strides, tuple(sizes), self.itemsize)
        if strides is None:
            return None
        return type(self)(self.storage(), self.dtype, sizes, strides, self.storage_offset(), self.readonly)

    def view(self, *shape: SupportsIndex | Sequence[SupportsIndex] | npt.DTypeLike) -> Self:
        """Return a view in another shape, as torch does, or of another dtype, as NumPy does.

        Parameters
        ----------
        *shape
            Sizes, one of which may be -1; or a single dtype, to read the same bytes as that.

        Raises
        ------
        ValueError
            If that cannot be done without a copy.
        """
        array = self._layout()
        if len(shape) == 1 and not isinstance(shape[0], (int, np.integer, tuple, list)):
            return self._over(array.view(np.dtype(shape[0])), array)  # type: ignore[arg-type]
        if self._on_device:
            view = self._reshaped(*shape)
            if view is None:
                msg = f"shape {shape} needs a copy of a tensor with strides {self.strides}; use reshape"
                raise ValueError(msg)
            return view
        result = array.reshape(*shape)  # type: ignore[arg-type]  # as above
        if not _is_view(result, array) and self.size != 0:
            msg = f"shape {shape} needs a copy of a tensor with strides {self.strides}; use reshape"
            raise ValueError(msg)
        return self._over(result, array)

    def as_readonly(self) -> Self:
        """Return a view that cannot be written through.

        Sent to another process, it arrives in memory that is mapped without the right to write, unless
        that process has the same storage writable already.
        """
        array = self._layout()
        return self._over(array, array, readonly=True)

    def __getitem__(self, key: Any) -> Any:
        """Index as NumPy does.

        Integers, slices, ``...``, None and the names of fields give a view, a Tensor (of no dimension for
        a single element). Index arrays and masks give a copy, a NumPy array in private memory.
        """
        array = self._layout()
        key = _plain_key(key)
        parts = key if isinstance(key, tuple) else (key,)
        if all(map(_is_basic, parts)):
            key = parts if Ellipsis in parts else (*parts, Ellipsis)
        elif self._on_device and not _is_fields(key):
            msg = "index arrays and masks need the elements: use cupy() or cpu()"
            raise TypeError(msg)
        result = array[key]
        return self._over(result, array) if _is_view(result, array) else result

    def __setitem__(self, key: Any, value: Any) -> None:
        """Assign as NumPy does; other processes see it."""
        if self._on_device:
            self[key].copy_(value)
        else:
            self.numpy()[_plain_key(key)] = as_array(value)

    def __iter__(self) -> Iterator[Self]:
        """Views of the first axis's elements."""
        return (self[i] for i in range(len(self)))

    @classmethod
    def _copied(cls, array: Array) -> Self:
        result = _core.empty(array.shape, array.dtype, False)
        np.copyto(result.numpy(), array)
        return result  # type: ignore[return-value]  # the registered class is Tensor
