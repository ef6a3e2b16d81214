"""The workers of the demo: receive the data in one of three ways, process it, report."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from multiprocessing.shared_memory import SharedMemory
from typing import TYPE_CHECKING, Any

import numpy as np

from shmtensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Array = npt.NDArray[Any]

__all__ = ["PASSES", "STEPS", "NamedArray", "Result", "examine", "work"]

PASSES = 4
STEPS = 16  # in each pass


@dataclass(frozen=True)
class NamedArray:
    """Shared memory of the standard library, sent by name with the shape and the dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class Result:
    """A checksum of all bytes and the mean of every column."""

    checksum: int
    means: tuple[float, ...]


def examine(data: Array, step_done: Callable[[], object]) -> Result:
    """Read the data `PASSES` times."""
    rows = data.reshape(len(data), -1)
    for _ in range(PASSES):
        checksum = 0
        sums = np.zeros(rows.shape[1])
        for batch in np.array_split(rows, STEPS):
            checksum = zlib.crc32(batch.data, checksum)
            sums += batch.sum(axis=0, dtype=np.float64)
            step_done()
    return Result(checksum, tuple(sums / len(rows)))


def work(rank: int, orders: Any, reports: Any) -> None:
    """Serve one round: report ready, receive the data, report that, work on order, end on order."""
    reports.put((rank, "ready", None))
    received = orders.get()
    memory: SharedMemory | None = None
    if isinstance(received, NamedArray):
        memory = SharedMemory(received.name)
        data: Array = np.ndarray(received.shape, received.dtype, memory.buf)
    else:
        data = received.numpy() if isinstance(received, Tensor) else received
    reports.put((rank, "received", None))
    orders.get()
    result = examine(data, lambda: reports.put((rank, "step", None)))
    reports.put((rank, "result", result))
    orders.get()
    del data, received
    if memory is not None:
        memory.close()
