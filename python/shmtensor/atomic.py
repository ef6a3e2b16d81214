"""Atomic operations on elements of host tensors, which any number of processes and threads may use.

::

    st.atomic.add(histogram, bins, 1)  # as np.add.at, but exact if other processes add, too

Each function takes one element, or as many as arrays of indices select. An element is changed as a whole or
not at all: a process that is killed leaves nothing to repair. The operations on several elements are one
operation on each, in the order of the indices. All are sequentially consistent.

The elements are int32, uint32, int64 or uint64, or for `add`, `exchange`, `load` and `store` float32 or
float64. `index` is an integer, a tuple of integers, one for each dimension, an array of integers, or a tuple
of such arrays, which are broadcast; negative ones count from the end. A value is a number, or an array that
is broadcast to the indices. Views of any strides are accepted, and NumPy arrays; elements that are not
aligned are refused. Integers wrap around, as in NumPy.

For all functions here:

- TypeError: the dtype is not supported, the tensor is on a GPU, or a value cannot be converted to the dtype.
- OverflowError: a value does not fit into the dtype.
- IndexError: an index is out of bounds.
- ValueError: the tensor is read-only or not aligned, or shapes do not match.

Nothing has changed after these errors, unless another process changes the indices during the call.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

import shmtensor._core as _core
from shmtensor._layout import address_of
from shmtensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FunctionType
    from typing import TypeAlias

    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]
    Index: TypeAlias = npt.ArrayLike | tuple[npt.ArrayLike, ...]

__all__ = [
    "add",
    "compare_exchange",
    "exchange",
    "load",
    "maximum",
    "minimum",
    "store",
    "wait_for_change",
]
__dir__ = __all__.copy

_Function = TypeVar("_Function", bound="Callable[..., Any]")

_INTEGERS = [np.dtype(name) for name in ("int32", "uint32", "int64", "uint64")]
_FLOATS = [np.dtype(name) for name in ("float32", "float64")]
_INTEGERS_ONLY = {"compare_exchange", "maximum", "minimum"}


def _quick_for_one(function: _Function) -> _Function:
    """Return the function of the extension, which serves one element and calls this for the rest."""
    code = cast("FunctionType", function).__code__
    names = code.co_varnames[: code.co_argcount]
    document = f"{function.__name__}({', '.join(names)})\n--\n\n{function.__doc__ or ''}"
    return _core.atomic_function(function, document)


@_quick_for_one
def add(tensor: Tensor | Array, index: Index, value: npt.ArrayLike) -> Any:
    """Add `value` to the elements.

    Returns
    -------
    int or float or None
        The previous value of one element; None for arrays of indices.
    """
    return _apply("add", tensor, index, value)


@_quick_for_one
def exchange(tensor: Tensor | Array, index: Index, value: npt.ArrayLike) -> Any:
    """Store `value` in the elements.

    Returns
    -------
    int or float or None
        The previous value of one element; None for arrays of indices.
    """
    return _apply("exchange", tensor, index, value)


@_quick_for_one
def minimum(tensor: Tensor | Array, index: Index, value: npt.ArrayLike) -> Any:
    """Store `value` in the elements that are greater.

    Returns
    -------
    int or None
        The previous value of one element; None for arrays of indices.
    """
    return _apply("minimum", tensor, index, value)


@_quick_for_one
def maximum(tensor: Tensor | Array, index: Index, value: npt.ArrayLike) -> Any:
    """Store `value` in the elements that are less.

    Returns
    -------
    int or None
        The previous value of one element; None for arrays of indices.
    """
    return _apply("maximum", tensor, index, value)


@_quick_for_one
def load(tensor: Tensor | Array, index: Index) -> Any:
    """Return the elements; the tensor may be read-only.

    Returns
    -------
    int or float or ndarray
        The value of one element; an array for arrays of indices.
    """
    return _apply("load", tensor, index)


@_quick_for_one
def store(tensor: Tensor | Array, index: Index, value: npt.ArrayLike) -> None:
    """Store `value` in the elements."""
    _apply("store", tensor, index, value)


@_quick_for_one
def compare_exchange(
    tensor: Tensor | Array, index: Index, expected: npt.ArrayLike, value: npt.ArrayLike
) -> Any:
    """Store `value` in the elements that equal `expected`.

    Of several processes that call this for one element, with an `expected` that differs from their values,
    exactly one stores: so a process claims a job.

    Returns
    -------
    bool or ndarray
        True where the value was stored.
    """
    return _apply("compare_exchange", tensor, index, value, expected)


def wait_for_change(
    tensor: Tensor | Array, index: int | tuple[int, ...], old: float, timeout: float | None = None
) -> bool:
    """Wait until an element differs from `old`.

    Every writer counts, also one that knows nothing of this: the element is polled, for 20 microseconds
    without a pause, then with pauses that grow from 50 microseconds to a millisecond. A value that exists
    between two reads only is not seen. The GIL is released, and Ctrl-C ends the wait. Two NaNs are equal.

    Parameters
    ----------
    tensor, index
        One element, as in `shmtensor.atomic`; the tensor may be read-only.
    old
        What the element contains before the change.
    timeout
        Seconds to wait; None for no limit.

    Returns
    -------
    bool
        True if the element differs; False after the timeout.
    """
    array = _elements("wait_for_change", tensor)
    parts, shape = _positions(array, index)
    if shape != ():
        msg = f"wait_for_change takes one element, not indices of shape {shape}"
        raise TypeError(msg)
    seconds = math.inf if timeout is None else float(timeout)
    if math.isnan(seconds):
        msg = "the timeout is NaN"
        raise ValueError(msg)
    place = (*(part.item() for part in parts), ...)
    element = array[place]  # an array, not a number
    return _core.wait_for_change(element, _operand(old, array, ()), seconds)


def _apply(name: str, tensor: object, index: object, value: object = 0, expected: object = 0) -> Any:
    array = _elements(name, tensor)
    parts, shape = _positions(array, index)
    values = _operand(value, array, shape)
    wanted = _operand(expected, array, shape)
    results: Array | None = None
    if name == "compare_exchange":
        results = np.empty(shape, np.bool_)
    elif shape == () or name == "load":
        results = np.empty(shape, array.dtype)
    _core.apply_to_many(name, array, parts, math.prod(shape), values, wanted, results)
    return results.item() if results is not None and shape == () else results


def _elements(name: str, tensor: object) -> Array:
    """Return an array over the elements; raise if the operation cannot use them."""
    if isinstance(tensor, Tensor):
        if tensor.device != "cpu":
            msg = f"{name} takes a tensor of the host; this one is on {tensor.device}"
            raise TypeError(msg)
        array = tensor.numpy()
    elif isinstance(tensor, np.ndarray):
        array = np.asarray(tensor)  # without the ways of a subclass
    else:
        msg = f"{name} takes a Tensor or a NumPy array, not {tensor!r:.60}"
        raise TypeError(msg)
    supported = _INTEGERS if name in _INTEGERS_ONLY else _INTEGERS + _FLOATS
    if array.dtype not in supported:
        also = "; floats have add, exchange, load and store" if array.dtype in _FLOATS else ""
        msg = f"{name} takes {', '.join(map(str, supported))}, not {array.dtype}{also}"
        raise TypeError(msg)
    if not array.flags.writeable and name not in {"load", "wait_for_change"}:
        msg = f"{name} cannot write: the tensor is read-only"
        raise ValueError(msg)
    size = array.itemsize
    steps = [step for step, length in zip(array.strides, array.shape, strict=True) if length > 1]
    if array.size and any(number % size for number in (address_of(array), *steps)):
        msg = f"the elements are not aligned: their addresses must be multiples of {size}"
        raise ValueError(msg)
    return array.view(supported[supported.index(array.dtype)])  # C's long long is another object


def _positions(array: Array, index: object) -> tuple[tuple[Array, ...], tuple[int, ...]]:
    """Return indices along each axis, in C order, and their common shape."""
    parts = index if isinstance(index, tuple) else (index,)
    dims = array.ndim
    if len(parts) > dims:
        msg = f"too many indices for array: array is {dims}-dimensional, but {len(parts)} were indexed"
        raise IndexError(msg)
    if len(parts) < dims:
        msg = f"the tensor is {dims}-dimensional, so an element needs {dims} indices, not {len(parts)}"
        raise IndexError(msg)
    numbers = [_integers(part, axis, array) for axis, part in enumerate(parts)]
    shape = np.broadcast_shapes(*(number.shape for number in numbers))
    return tuple(_apart(np.broadcast_to(number, shape), array) for number in numbers), shape


def _integers(part: object, axis: int, array: Array) -> Array:
    numbers = _numbers(part)
    if _kind(numbers) not in "iu":
        msg = (
            f"an index is an integer or an array of integers, not {part!r:.60}; for a mask, use numpy.nonzero"
        )
        raise IndexError(msg)
    if numbers.dtype.kind != "i" and (number := _outside(numbers, np.iinfo(np.int64))) is not None:
        msg = f"index {number} is out of bounds for axis {axis} with size {array.shape[axis]}"
        raise IndexError(msg)
    return numbers.astype(np.int64, copy=False)


def _operand(value: object, array: Array, shape: tuple[int, ...]) -> Array:
    """Return a number of the array's dtype, or an array of them of that shape, in C order."""
    given = _numbers(value)
    if given.dtype != array.dtype:
        _check_convertible(given, array.dtype)
        with np.errstate(over="ignore"):
            given = given.astype(array.dtype)
    return _apart(np.broadcast_to(given, shape) if given.ndim != 0 else given, array)


def _apart(operands: Array, array: Array) -> Array:
    """Return them in C order, and a copy if the operation would change them."""
    if np.may_share_memory(operands, array):
        return np.array(operands, order="C")
    return np.asarray(operands, order="C")


def _check_convertible(given: Array, dtype: np.dtype[Any]) -> None:
    kind = _kind(given)
    if kind not in ("biuf" if dtype.kind == "f" else "biu") and given.size:
        msg = f"cannot convert {given!r:.60} to {dtype}"
        raise TypeError(msg)
    if dtype.kind == "f" or kind == "b":
        return
    if (number := _outside(given, np.iinfo(dtype))) is not None:
        msg = f"{number} is out of bounds for {dtype}"
        raise OverflowError(msg)


def _numbers(given: Any) -> Array:
    """Return an array; one of objects if NumPy would make floats of integers, as of [] and [1, 2**63]."""
    numbers = np.asarray(given)
    if numbers.dtype.kind == "f" and isinstance(given, (list, tuple)):
        exact = np.asarray(given, np.object_)
        return exact if _kind(exact) == "u" else numbers
    return numbers


def _kind(numbers: Array) -> str:
    """Return the kind of the dtype; "u" for objects that are all integers, such as those of 65 bits."""
    kind = numbers.dtype.kind
    if kind == "O" and all(isinstance(number, (int, np.integer)) for number in numbers.flat):
        return "u"
    return kind


def _outside(numbers: Array, limits: np.iinfo[Any]) -> int | None:
    """Return a number that is not within the limits."""
    extremes = [int(numbers.min()), int(numbers.max())] if numbers.size else []
    return next((number for number in extremes if not limits.min <= number <= limits.max), None)
