"""Three ways to give arrays to processes: pickles, SharedMemory of the standard library, shmtensor.

Each has the same methods. The loader calls `whole` for the table that every worker keeps, `put` for a fresh
batch, `finished` when the answer to a batch has arrived, `end` after the last batch, and `close`.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np

import shmtensor as st
import shmtensor.multiprocessing as mp


class Segment:
    """An array in a SharedMemory segment. Its pickle has the name of the segment."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, name: str | None = None) -> None:
        nbytes = int(np.prod(shape)) * dtype.itemsize
        self._memory = SharedMemory(name, create=name is None, size=nbytes)
        self.array: np.ndarray = np.ndarray(shape, dtype, self._memory.buf)

    def __reduce__(self) -> tuple[Any, ...]:
        return Segment, (self.array.shape, self.array.dtype, self._memory.name)

    def close(self, *, remove: bool = False) -> None:
        """Unmap the segment, and remove its name."""
        del self.array
        self._memory.close()
        if remove:
            self._memory.unlink()


class Pickle:
    """Arrays in messages of a queue of the standard library."""

    name = "pickle"
    context = multiprocessing.get_context("spawn")

    def __init__(self, table: np.ndarray) -> None:
        self.table = table
        self.tasks: Any = self.context.SimpleQueue()

    def whole(self) -> Any:
        return self.table

    def put(self, number: int, rows: np.ndarray, *, pause: bool) -> None:
        self.tasks.put((number, pause, self.table.take(rows, axis=0, mode="clip")))

    def finished(self, number: int) -> None:
        pass

    def end(self, workers: int) -> None:
        for _ in range(workers):
            self.tasks.put(None)

    def close(self) -> None:
        self.tasks.close()


class Segments(Pickle):
    """A segment for each array, whose name travels over a queue of the standard library."""

    name = "SharedMemory"

    def __init__(self, table: np.ndarray) -> None:
        super().__init__(table)
        self._whole = Segment(table.shape, table.dtype)
        self._whole.array[:] = table
        self._batches: dict[int, Segment] = {}

    def whole(self) -> Any:
        return self._whole

    def put(self, number: int, rows: np.ndarray, *, pause: bool) -> None:
        batch = Segment((len(rows), *self.table.shape[1:]), self.table.dtype)
        self._batches[number] = batch
        self.table.take(rows, axis=0, out=batch.array, mode="clip")
        self.tasks.put((number, pause, batch))

    def finished(self, number: int) -> None:
        self._batches.pop(number).close(remove=True)

    def close(self) -> None:
        """Remove all segments, those of batches that were lost included."""
        super().close()
        for segment in (self._whole, *self._batches.values()):
            segment.close(remove=True)


class Handles(Pickle):
    """A tensor for each array. The queue of handles delivers again what a killed worker had."""

    name = "shmtensor"
    context = mp.get_context("spawn")

    def __init__(self, table: np.ndarray) -> None:
        self.table = table
        self._whole = st.asarray(table)
        self.tasks = st.Queue(redeliver=True)

    def whole(self) -> Any:
        return self._whole

    def put(self, number: int, rows: np.ndarray, *, pause: bool) -> None:
        batch = st.empty((len(rows), *self.table.shape[1:]), self.table.dtype)
        self.table.take(rows, axis=0, out=batch.numpy(), mode="clip")
        self.tasks.put((number, pause, batch))

    def end(self, workers: int) -> None:  # noqa: ARG002
        self.tasks.shutdown()


WAYS = (Pickle, Segments, Handles)


def opened(message: Any) -> np.ndarray:
    """Return the array that a worker received."""
    if isinstance(message, Segment):
        return message.array
    return message.numpy() if isinstance(message, st.Tensor) else message
