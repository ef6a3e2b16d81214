"""The base class of Tensor that makes views; a method that copies is documented to do so."""

from __future__ import annotations

import operator
from types import EllipsisType
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

import shmtensor._core as _core
from shmtensor._backend import backend_of
from shmtensor._host import as_array
from shmtensor._layout import address_of, is_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from typing_extensions import Self

    Array = npt.NDArray[Any]


def _is_basic(part: object) -> bool:
    return part is None or (isinstance(part, (int, slice, EllipsisType)) and not isinstance(part, bool))


def _is_fields(key: object) -> bool:
    return isinstance(key, str) or (isinstance(key, list) and all(isinstance(name, str) for name in key))


def _plain(part: Any) -> Any:
    """Return one part of an index for NumPy: an int if NumPy accepts the part as one."""
    part = as_array(part)
    if isinstance(part, np.ndarray):
        return int(part) if part.ndim == 0 and part.dtype.kind in "iu" else part
    if isinstance(part, (bool, np.bool_)) or not hasattr(part, "__index__"):
        return part
    return operator.index(part)


def _plain_key(key: Any) -> Any:
    return tuple(map(_plain, key)) if isinstance(key, tuple) else _plain(key)


class Views(_core.TensorBase):
    """Reshaping, slicing and transposing."""

    __slots__ = ()

    def _over(self, view: Array, base: Array, *, readonly: bool | None = None) -> Self:
        """Return the tensor for a NumPy view of this tensor's array `base`."""
        offset = self.storage_offset()
        if view.size != 0:
            offset += address_of(view) - address_of(base)
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
        """View with the axes in reverse order."""
        return self.transpose()

    def transpose(self, *axes: SupportsIndex) -> Self:
        """Return a view with the axes permuted.

        Parameters
        ----------
        *axes
            The new order of the axes; without any, the order is reversed.

        Raises
        ------
        ValueError
            If `axes` is not a permutation of them.
        """
        array = self._layout()
        return self._over(array.transpose(*axes), array)

    def reshape(self, *shape: SupportsIndex | Sequence[SupportsIndex]) -> Self:
        """Return the elements in another shape.

        A view if the strides allow it, else a copy in shared memory. One size may be -1.

        Raises
        ------
        ValueError
            If the number of elements differs.
        """
        return backend_of(self.storage()).reshape(self, shape, copy=True)  # type: ignore[no-any-return]

    def ravel(self) -> Self:
        """Return the elements along one axis, in C order: a view if the strides allow it, else a copy."""
        return self.reshape(-1)

    def squeeze(self, axis: SupportsIndex | tuple[SupportsIndex, ...] | None = None) -> Self:
        """Return a view without axes of size 1: all of them, or those given.

        Raises
        ------
        ValueError
            If the size of a given axis is not 1.
        """
        array = self._layout()
        return self._over(array.squeeze(axis), array)

    def swapaxes(self, axis1: SupportsIndex, axis2: SupportsIndex) -> Self:
        """Return a view with two axes exchanged."""
        array = self._layout()
        return self._over(array.swapaxes(axis1, axis2), array)

    def view(self, *shape: SupportsIndex | Sequence[SupportsIndex] | npt.DTypeLike) -> Self:
        """Return a view in another shape, as in torch, or of another dtype, as in NumPy.

        Parameters
        ----------
        *shape
            Sizes, one of which may be -1; or a single dtype, as which the same bytes are read.

        Raises
        ------
        ValueError
            If the result needs a copy.
        """
        if len(shape) == 1 and not isinstance(shape[0], (int, np.integer, tuple, list)):
            array = self._layout()
            return self._over(array.view(np.dtype(shape[0])), array)  # type: ignore[arg-type]
        return backend_of(self.storage()).reshape(self, shape, copy=False)  # type: ignore[no-any-return]

    def as_readonly(self) -> Self:
        """Return a view that refuses writes.

        Sent to another process, it arrives in memory that is mapped read-only, unless that one has
        allocated the memory.
        """
        array = self._layout()
        return self._over(array, array, readonly=True)

    def _select(self, key: Any) -> Any:
        """Index by anything: for what the core does not index itself, and for errors."""
        array = self._layout()
        key = _plain_key(key)
        parts = key if isinstance(key, tuple) else (key,)
        if all(map(_is_basic, parts)):
            result = array[parts if Ellipsis in parts else (*parts, Ellipsis)]
        elif _is_fields(key):
            result = array[key]
        else:
            result = backend_of(self.storage()).gather(array, key)
        return self._over(result, array) if is_view(result, array) else result

    def _assign(self, key: Any, value: Any) -> None:
        """Assign by any index: for what the core does not assign itself."""
        backend_of(self.storage()).assign(self, _plain_key(key), value)
