"""Limits of tasks: the worker of one that takes too long, or too much memory, is killed."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from shmtensor._log import log_event
from shmtensor.multiprocessing._pool.naming import describe
from shmtensor.multiprocessing._pool.running import private_bytes
from shmtensor.multiprocessing.errors import TaskMemory, TaskTimeout

if TYPE_CHECKING:
    from collections.abc import Callable

    from shmtensor.multiprocessing._pool.options import Options
    from shmtensor.multiprocessing._pool.workers import Workers

_PAUSE = 0.1  # seconds until the tasks are checked again after an error


class Stopped(NamedTuple):
    """A task that was above its limit, for the thread that receives results."""

    position: int
    error: Callable[[str, int, Any], BaseException]  # of the name of the task, the pid and the limit
    pid: int
    most: float


class Limits:
    """The tasks with a limit that have no result yet.

    A thread watches them while there are any. A task that begins just after the thread has looked is above
    its limit after the shortest interval at the earliest, so the thread sleeps as long.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._limits: dict[int, Options] = {}  # by position
        self._interval = float("inf")  # the shortest
        self._changed = threading.Condition(threading.Lock())
        self._thread: threading.Thread | None = None
        self._is_over = False

    def add(self, position: int, limit: Options) -> None:
        """Add a task that is about to be put."""
        with self._changed:
            if self._is_over:
                return
            self._limits[position] = limit
            if limit.interval < self._interval:
                self._interval = limit.interval
                self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="shmtensor-limits", daemon=True)
                self._thread.start()

    def remove(self, position: int) -> None:
        """Remove a task, if it has a limit."""
        if self._limits:
            self._limits.pop(position, None)

    def end(self) -> None:
        """End the thread: the pool is terminated."""
        with self._changed:
            self._is_over = True
            self._limits.clear()
            self._changed.notify()

    def _watch(self) -> None:
        while True:
            try:
                pause = self._stop_tasks()
            except Exception as error:  # as memory may be short: the tasks of other workers keep their limits
                log_event(f"a pool has killed the worker of a task without its result: {describe(error)}")
                pause = _PAUSE
            with self._changed:
                if not self._limits:
                    self._thread, self._interval = None, float("inf")
                    return
                self._changed.wait(min(pause, self._interval, threading.TIMEOUT_MAX))

    def _stop_tasks(self) -> float:
        """Stop what is above its limit; return the seconds until another task can be."""
        pause, now = float("inf"), time.monotonic()
        for rank, position, begun, private in self._workers.running.tasks():
            limit = self._limits.get(position)
            if limit is None:
                continue
            timeout, max_bytes = limit.timeout, limit.max_bytes
            if timeout is not None:
                left = begun + timeout - now
                pause = min(pause, max(left, 0))
                if left <= 0:
                    self._stop(rank, position, TaskTimeout, timeout)
            if max_bytes is not None and self._private_bytes(rank) - private > max_bytes:
                self._stop(rank, position, TaskMemory, max_bytes)
        return pause

    def _stop(self, rank: int, position: int, error: Any, most: float) -> None:
        if self._workers.stop(rank, position, lambda pid: Stopped(position, error, pid, most)):
            self._limits.pop(position, None)

    def _private_bytes(self, rank: int) -> int:
        pid = self._workers.pid_of(rank)
        return 0 if pid is None else private_bytes(pid)
