"""Room for tasks: a pool takes the items of a generator as its workers need them.

The standard library's waits while its pipe is full. `max_bytes` of the queue would not do: tasks that run
have their memory, too, and `terminate` wakes the thread that waits here.
"""

from __future__ import annotations

import threading
from typing import Any

_MOST_BYTES = 1 << 20  # of tasks without a result, if each worker has enough to do; the pipe's are 64 KiB
RUN = "RUN"  # the state of a thread of the standard library's pool
RECHECK = 0.1  # in seconds: without the GIL, a thread may see late that another waits


class Room:
    """The sizes of the tasks without a result.

    Threads: one adds tasks and waits for room, another removes those that have a result. Each changes a sum
    of its own. With a lock, small tasks took half as long again.
    """

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}  # by position in the queue
        self._added = self._removed = 0  # bytes
        self._changed = threading.Condition(threading.Lock())
        self._is_awaited = False
        self.position = 0  # of the task that is put

    def add(self, nbytes: int) -> None:
        """Add the task that is put."""
        self._sizes[self.position] = nbytes
        self._added += nbytes

    def take_back(self, position: int) -> None:
        """Remove a task that could not be put."""
        self._added -= self._sizes.pop(position, 0)

    def remove(self, position: int) -> None:
        """Remove a task that has a result."""
        self._removed += self._sizes.pop(position, 0)
        if self._is_awaited:
            with self._changed:
                self._changed.notify()

    def wait(self, least: int) -> None:
        """Wait while at least that many tasks with many bytes have no result, and the pool runs."""
        if self._added - self._removed <= _MOST_BYTES:
            return
        thread: Any = threading.current_thread()
        with self._changed:
            thread._room = self
            self._is_awaited = True  # before the sums are read, which `remove` changes before it reads this
            while (
                len(self._sizes) >= least
                and self._added - self._removed > _MOST_BYTES
                and thread._state == RUN
            ):
                self._changed.wait(RECHECK)
            self._is_awaited = False


def wake(thread: Any) -> None:
    """Wake a thread that waits for room, after its state was changed."""
    room: Room | None = getattr(thread, "_room", None)
    if room is not None:
        with room._changed:
            room._changed.notify()
