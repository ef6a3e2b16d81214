"""Arithmetic of shapes and strides, for memory that NumPy must not touch, and bytes of memory as an array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


def address_of(array: npt.NDArray[Any]) -> int:
    """Return where the first element is. `ndarray.ctypes` would take several times as long."""
    address: int = array.__array_interface__["data"][0]
    return address


def is_view(result: Any, array: npt.NDArray[Any]) -> bool:
    """Return True if NumPy made `result` as a view of `array`."""
    return isinstance(result, np.ndarray) and result.base is array


def needs_copy(shape: tuple[Any, ...], strides: tuple[int, ...]) -> ValueError:
    """Return the error for a view that cannot be made."""
    return ValueError(f"shape {shape} needs a copy of a tensor with strides {strides}; use reshape")


def byte_bounds(
    first: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int
) -> tuple[int, int]:
    """Return the address of the lowest byte of any element and the end of the highest.

    Parameters
    ----------
    first
        Address, or offset, of the first element.
    shape, strides, itemsize
        As of an array; without elements, both results are `first`.
    """
    if 0 in shape:
        return first, first
    low = high = first
    for size, stride in zip(shape, strides, strict=True):
        reach = (size - 1) * stride
        low, high = low + min(reach, 0), high + max(reach, 0)
    return low, high + itemsize


def strides_for(
    shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...], itemsize: int
) -> tuple[int, ...] | None:
    """Return the strides of a view of `shape` as `wanted`; None if that needs a copy.

    Both shapes have the same number of elements, at least one.
    """
    old = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1]
    result: list[int] = []
    position = 0
    done = 0
    while done < len(wanted):
        # A run of new axes, and the run of old axes with the same number of elements.
        end = done + 1
        new_count = wanted[done]
        if new_count == 1:
            result.append(itemsize)
            done = end
            continue
        first = position
        old_count = 1
        while old_count != new_count:
            if old_count < new_count:
                old_count *= old[position][0]
                position += 1
            else:
                new_count *= wanted[end]
                end += 1
        for (_, outer), (size, inner) in zip(
            old[first : position - 1], old[first + 1 : position], strict=True
        ):
            if outer != size * inner:
                return None
        step = old[position - 1][1]
        run = []
        for size in reversed(wanted[done:end]):
            run.append(step)
            step *= size
        result.extend(reversed(run))
        done = end
    return tuple(result)


def c_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the strides of an array in C order."""
    strides = []
    step = itemsize
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def bytes_at(owner: Any, address: int, nbytes: int, readonly: bool = False) -> npt.NDArray[np.uint8]:
    """Return an array over bytes of memory that `owner`, which the array keeps alive, keeps valid."""
    return np.asarray(_Bytes(owner, address, nbytes, readonly))


class _Bytes:
    def __init__(self, owner: Any, address: int, nbytes: int, readonly: bool) -> None:
        self._owner = owner
        self.__array_interface__ = {
            "version": 3,
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, readonly),
        }
