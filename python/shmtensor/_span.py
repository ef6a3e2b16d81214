"""Where elements lie."""

from __future__ import annotations

__all__ = ["span"]


def span(first: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """Return where the lowest byte of any element lies, and the end of the highest; `shape` has no zero."""
    low = high = first
    for size, stride in zip(shape, strides, strict=True):
        low, high = low + min((size - 1) * stride, 0), high + max((size - 1) * stride, 0)
    return low, high + itemsize
