"""`buffersize` of a pool's iterators: items are taken as results are asked for, as in Python 3.15."""

from __future__ import annotations

import threading
from multiprocessing import TimeoutError  # noqa: A004  # another class before Python 3.11
from typing import TYPE_CHECKING, Any

from shmtensor._values import check_integer
from shmtensor.multiprocessing._pool.room import RECHECK, RUN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


def buffered(
    start: Callable[[Iterable[Any]], Any], iterable: Iterable[Any], size: int, chunksize: int
) -> Any:
    """Return the iterator of a job, for which at most so many items are without a result that was yielded.

    Parameters
    ----------
    start
        Starts the job with the items that are given to it.
    iterable
        All items.
    size
        How many; at least a chunk of them is taken.
    chunksize
        Items in one task.

    Raises
    ------
    ValueError
        If the size is not above 0.
    """
    room = _Room(max(check_integer("buffersize", size, 1), chunksize))
    return _Results(start(room.items(iterable)), room)


class _Room:
    def __init__(self, size: int) -> None:
        self._free = threading.Semaphore(size)
        self.add = self._free.release
        self.is_abandoned = False

    def items(self, iterable: Iterable[Any]) -> Iterator[Any]:
        """Yield the items as there is room, in the thread that puts tasks, until the pool is terminated."""
        iterator = iter(iterable)
        while self._wait():
            try:
                item = next(iterator)
            except StopIteration:
                return
            yield item
            del item  # not kept while this waits

    def _wait(self) -> bool:
        thread: Any = threading.current_thread()
        while not self._free.acquire(timeout=RECHECK):
            if self.is_abandoned or thread._state != RUN:
                return False
        return True


class _Results:
    def __init__(self, results: Any, room: _Room) -> None:
        self._results, self._room = results, room

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self.next()

    def next(self, timeout: float | None = None) -> Any:
        """Return the next result; see `multiprocessing.pool.IMapIterator`."""
        try:
            result = next(self._results) if timeout is None else self._results.next(timeout)
        except TimeoutError as error:
            if error.__cause__ is not None:  # it is the exception of a task
                self._room.add()
            raise
        except Exception:
            self._room.add()
            raise
        self._room.add()  # not if a signal handler has raised
        return result

    def __del__(self) -> None:
        self._room.is_abandoned = True  # the thread puts no more of its tasks, but those of others
