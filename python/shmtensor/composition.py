"""Tensors composed of other arrays, a range or a file, as by NumPy's functions of the same names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from shmtensor.creation import asarray, empty
from shmtensor.tensor import Tensor

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    Array = npt.NDArray[Any]

__all__ = ["arange", "concatenate", "load", "stack"]
__dir__ = __all__.copy

Out = TypeVar("Out", bound="Tensor | Array")


def arange(*range_: Any, dtype: npt.DTypeLike | None = None) -> Tensor:
    """Return evenly spaced numbers in a new tensor; the parameters are those of `numpy.arange`."""
    return asarray(np.arange(*range_, dtype=dtype))


@overload
def concatenate(arrays: Sequence[npt.ArrayLike], axis: int | None = 0, out: None = None) -> Tensor: ...
@overload
def concatenate(arrays: Sequence[npt.ArrayLike], axis: int | None, out: Out) -> Out: ...
@overload
def concatenate(arrays: Sequence[npt.ArrayLike], axis: int | None = 0, *, out: Out) -> Out: ...
def concatenate(
    arrays: Sequence[npt.ArrayLike], axis: int | None = 0, out: Tensor | Array | None = None
) -> Any:
    """Join arrays along an axis, each copied once, into shared memory.

    Parameters
    ----------
    arrays
        Tensors in host memory, or anything that `numpy.asarray` accepts.
    axis
        An axis of the arrays; None: all elements along one axis.
    out
        Where the result is stored instead of in a new tensor.

    Returns
    -------
    Tensor
        Or `out` itself.

    Raises
    ------
    OutOfSharedMemory
        If there is not enough memory.
    ValueError
        As from `numpy.concatenate`.
    """
    return _compose(np.concatenate, arrays, axis, out, _joined_shape)


@overload
def stack(arrays: Sequence[npt.ArrayLike], axis: int = 0, out: None = None) -> Tensor: ...
@overload
def stack(arrays: Sequence[npt.ArrayLike], axis: int, out: Out) -> Out: ...
@overload
def stack(arrays: Sequence[npt.ArrayLike], axis: int = 0, *, out: Out) -> Out: ...
def stack(arrays: Sequence[npt.ArrayLike], axis: int = 0, out: Tensor | Array | None = None) -> Any:
    """Join arrays of one shape along a new axis, each copied once, into shared memory.

    Parameters, return value and exceptions as for `concatenate`; `axis` is one of the result.

    Examples
    --------
    >>> import shmtensor as st
    >>> st.stack([[1, 2], [3, 4], [5, 6]]).shape
    (3, 2)
    """
    return _compose(np.stack, arrays, axis, out, _stacked_shape)


def _compose(
    function: Callable[..., Array],
    arrays: Sequence[npt.ArrayLike],
    axis: int | None,
    out: Tensor | Array | None,
    shape_of: Callable[[list[Array], Any], tuple[int, ...]],
) -> Any:
    parts = [np.asarray(array) for array in arrays]
    if out is None:
        try:
            shape = shape_of(parts, axis)
        except (IndexError, TypeError):  # NumPy's error is better
            shape = ()
        out = empty(shape, np.result_type(*parts) if parts else None)
    function(parts, axis, out=out.numpy() if isinstance(out, Tensor) else out)
    return out


def _joined_shape(parts: list[Array], axis: int | None) -> tuple[int, ...]:
    if axis is None:
        return (sum(part.size for part in parts),)
    shape = list(parts[0].shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    return tuple(shape)


def _stacked_shape(parts: list[Array], axis: int) -> tuple[int, ...]:
    shape = list(parts[0].shape)
    shape.insert(axis if axis >= 0 else len(shape) + 1 + axis, len(parts))
    return tuple(shape)


def load(path: str | os.PathLike[str]) -> Tensor:
    """Read an array that `numpy.save` has written, directly into shared memory.

    To store a tensor: ``numpy.save(path, tensor)``.

    Raises
    ------
    OutOfSharedMemory
        If there is not enough memory.
    OSError
        If the file cannot be read.
    ValueError
        If it is not a file of `numpy.save`, is too short, or has Python objects.
    """
    array = np.load(path, mmap_mode="r", allow_pickle=False)  # copied page by page, never as a whole
    if not isinstance(array, np.ndarray):
        array.close()
        msg = f"{path} has several arrays, as numpy.savez writes; load them with numpy.load"
        raise ValueError(msg)
    return asarray(array)
