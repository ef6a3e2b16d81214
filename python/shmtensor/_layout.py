"""Arithmetic of shapes and strides, for memory that NumPy must not touch."""

from __future__ import annotations

__all__ = ["byte_bounds", "strides_for"]


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
    """Return the strides with which elements of `shape` can be seen as `wanted`; None: only by a copy.

    Both shapes have the same number of elements, not zero.
    """
    old = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1]
    result: list[int] = []
    position = 0
    done = 0
    while done < len(wanted):
        # A run of new axes and the run of old ones that has as many elements.
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
