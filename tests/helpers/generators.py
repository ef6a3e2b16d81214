"""Random tensors, shapes and indices for hypothesis."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as some

import shmtensor as st
from tests.helpers.dtypes import ALL

dtypes = some.sampled_from(ALL)
shapes = some.lists(some.integers(0, 4), max_size=4).map(tuple)


def generated(examples: int) -> Any:
    """Return settings for a test: no time limits, and nothing written to disk.

    The everyday tests have the same examples each time; `--hypothesis-profile=default` generates others.
    """
    unimportant = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=examples, deadline=None, database=None, suppress_health_check=unimportant)


def extent(shape: tuple[int, ...], strides: tuple[int, ...], item_size: int) -> tuple[int, int]:
    """Return the bytes that the elements need before and after the address of the first one."""
    if 0 in shape:
        return 0, 0
    reaches = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    return -sum(r for r in reaches if r < 0), item_size + sum(r for r in reaches if r > 0)


@some.composite
def tensors(draw: Any, *, shared: bool | None = None, dtypes: Any = dtypes) -> st.Tensor:
    """Generate a tensor of random bytes with any strides and offset, shared or private, perhaps read-only."""
    dtype = draw(dtypes)
    shape = draw(shapes)
    strides = tuple(
        draw(some.integers(-4, 6)) * dtype.itemsize + draw(some.sampled_from([0, 0, 1])) for _ in shape
    )
    before, after = extent(shape, strides, dtype.itemsize)
    offset = before + draw(some.integers(0, 9))
    size = offset + after + draw(some.integers(0, 9))
    content = np.random.default_rng(draw(some.integers(0, 2**32))).integers(0, 256, size, "u1")
    if dtype == np.bool_:
        content &= 1  # other bytes are not valid bools
    if draw(some.booleans()) if shared is None else shared:
        storage = st.Storage(size).copy_(content)
    else:
        storage = st.frombuffer(bytearray(content.tobytes()), "u1").storage()
    return st.Tensor(storage, dtype, shape, strides, offset, draw(some.booleans()))


@some.composite
def basic_indices(draw: Any, shape: tuple[int, ...]) -> Any:
    """Generate an index of integers, slices, None and an ellipsis that fits the shape."""
    dims = draw(some.integers(0, len(shape)))
    from_the_end = draw(some.booleans())
    sizes = shape[len(shape) - dims :] if from_the_end else shape[:dims]
    parts: list[Any] = []
    for size in sizes:
        if size and draw(some.booleans()):
            index = draw(some.integers(-size, size - 1))
            parts.append(draw(some.sampled_from([int, np.int64, np.array]))(index))
        else:
            parts.append(draw(some.slices(size)))
    if from_the_end or draw(some.booleans()):
        parts.insert(0 if from_the_end else len(parts), ...)
    for _ in range(draw(some.integers(0, 2))):
        parts.insert(draw(some.integers(0, len(parts))), None)
    if len(parts) == 1 and draw(some.booleans()):
        return parts[0]
    return tuple(parts)


def view_of(array: np.ndarray, index: Any) -> np.ndarray:
    """Return the selection of a basic index as an array over the same memory, even for one element."""
    parts = index if isinstance(index, tuple) else (index,)
    plain = tuple(int(part) if isinstance(part, (np.ndarray, np.integer)) else part for part in parts)
    return array[plain if any(part is ... for part in plain) else (*plain, ...)]


@some.composite
def reshapes(draw: Any, size: int) -> tuple[int, ...]:
    """Generate a shape with that many elements, perhaps with -1 as one of its sizes."""
    parts = []
    rest = size
    for _ in range(draw(some.integers(0, 4))):
        if rest == 0:
            parts.append(draw(some.integers(1, 3)))
            continue
        part = draw(some.sampled_from([n for n in range(1, rest + 1) if rest % n == 0]))
        parts.append(part)
        rest //= part
    if rest != 1 or not parts:
        parts.append(rest)
    if 0 not in parts and draw(some.booleans()):
        parts[draw(some.integers(0, len(parts) - 1))] = -1
    return tuple(parts)


def outcome(function: Any, *arguments: Any) -> Any:
    """Return what a call returns, or type and text of the exception that it raises."""
    try:
        return function(*arguments)
    except Exception as error:
        return type(error).__name__, str(error)
