"""Room for tasks: a pool takes the items of a generator as its workers need them.

The standard library's waits while its pipe is full; the queues of this package have no limit but memory.
"""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["Room", "wake"]

_MOST_BYTES = 1 << 20  # of tasks without a result, if each worker has enough to do; the pipe's are 64 KiB
_RUN = "RUN"  # the state of a thread of the standard library's pool


class Room:
    """The sizes of the tasks without a result. Threads: any; one waits."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._sizes: dict[int, int] = {}  # by position in the queue
        self._bytes = 0
        self.position = 0  # of the task that is put

    def add(self, nbytes: int) -> None:
        """Add the task that is put."""
        with self._changed:
            self._sizes[self.position] = nbytes
            self._bytes += nbytes

    def remove(self, position: int) -> None:
        """Remove a task that has a result, or could not be put."""
        with self._changed:
            self._bytes -= self._sizes.pop(position, 0)
            self._changed.notify()

    def wait(self, least: int) -> None:
        """Wait while at least that many tasks with many bytes have no result, and the pool runs."""
        thread: Any = threading.current_thread()
        with self._changed:
            thread._room = self
            while len(self._sizes) >= least and self._bytes > _MOST_BYTES and thread._state == _RUN:
                self._changed.wait()


def wake(thread: Any) -> None:
    """Wake a thread that waits for room, after its state was changed."""
    room: Room | None = getattr(thread, "_room", None)
    if room is not None:
        with room._changed:
            room._changed.notify()
