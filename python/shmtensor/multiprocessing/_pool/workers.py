"""The workers of a pool: which task each has, which have ended, and which cannot start."""

from __future__ import annotations

import time
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from shmtensor._log import log_event
from shmtensor.multiprocessing._lifetime.descendants import Descendants
from shmtensor.multiprocessing._lifetime.parent_death import ParentDeathPipe
from shmtensor.multiprocessing._pool.running import Running
from shmtensor.multiprocessing._pool.worker import INITIALIZING, READY, work

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.process import BaseProcess

    from shmtensor.multiprocessing.queues import SimpleQueue

NONE_STARTS = -1
"""The notice that no worker will be started any more; any other one is the position of a lost task.

A notice is a number, for which no memory is allocated: a worker may have been killed because there is none.
"""
_START = 10.0  # seconds, at most, until the start of a worker that runs a task returns
_MOST_FAILURES = 3  # of workers one after another before they could take a task
_PAUSES = (0.05, 0.2, 0.75, 0.0)  # seconds after each attempt to start a worker in place of another


class Workers:
    """The workers, used by the thread of the pool that starts them.

    Each worker has words in shared memory: the position of its task plus 1, which the queue writes before the
    task is taken, how far its start is, and what it runs (`Running`).

    A process that has ended had the task of its word if that is counted as taken and no other word has its
    position. For the process that wrote a position last took the task, under the lock of the queue, or the
    repair counted it. A living worker with the same position has the task, or has sent its result; of several
    dead ones, one at most had it, and their words are cleared one after another. The notice of the end comes
    after every result that the worker has put, so a task with a result is not lost.
    """

    def __init__(self, tasks: SimpleQueue[Any], results: SimpleQueue[Any], make: Callable[..., Any]) -> None:
        self._tasks, self._results = tasks, results
        self._make = make  # a method of the pool's class, which a subclass may replace
        self.running = Running()
        self._workers: dict[int, BaseProcess] = {}  # by rank
        self._starting: set[int] = set()  # ranks
        self._failures = 0
        self._one_was_ready = False
        self.ended: dict[int, BaseProcess] = {}  # by the position of the task
        self.last_failed: BaseProcess | None = None  # if none is started any more
        self.start_error: Exception | None = None  # if none could be started in place of it
        self._last_ended: BaseProcess | None = None

    def count(self) -> int:
        """Return the number of workers."""
        return len(self._workers)

    def pid_of(self, rank: int) -> int | None:
        """Return the process id of a worker, None if there is none."""
        worker = self._workers.get(rank)
        return None if worker is None else worker.pid

    def stop(self, rank: int, position: int, message: Callable[[int], Any]) -> bool:
        """Kill the worker if it runs the task; return False if it does not.

        `message` returns, for the worker's process id, what is put among the results before the notice that
        the task is lost.
        """
        worker = self._workers.get(rank)
        if worker is None:
            return False
        last = time.monotonic() + _START
        while worker.pid is None and time.monotonic() < last:  # its start has yet to return here
            time.sleep(0.0005)
        if worker.pid is None or not self.running.stop(rank, position):
            return False
        try:
            self._results.put(message(worker.pid))  # first: the worker may end itself now
        finally:
            started = Descendants(worker.pid)
            worker.kill()
            started.kill()
        return True

    def new(self, context: Any, *, target: Any, args: Any) -> Any:  # noqa: ARG002  # the standard library's
        """Return a process in place of those that have ended, before it is started."""
        self._notice_ends()
        if self.last_failed is not None:
            return _NoWorker()
        rank = next(rank for rank in count() if rank not in self._workers)
        self.running.add_worker(rank)
        *others, _wraps_exceptions = args
        worker: BaseProcess = self._make(context, target=work, args=(self.running.block, rank, *others))
        worker._parent_death = ParentDeathPipe()  # type: ignore[attr-defined]
        self._workers[rank] = worker
        self._starting.add(rank)
        return worker

    def replace(self, context: Any, *, target: Any, args: Any) -> Any:
        """Return what starts a process in place of those that have ended, if one can be started.

        After a few attempts, as memory for it may be short for a moment only, the others go on without it
        until another one ends. If there is none, all tasks fail.
        """
        return _Replacement(partial(self._start, context, target, args))

    def _start(self, context: Any, target: Any, args: Any) -> Any:
        failure = None
        for pause in _PAUSES:
            worker = self.new(context, target=target, args=args)
            worker.name, worker.daemon = worker.name.replace("Process", "PoolWorker"), True
            try:
                worker.start()
            except Exception as error:
                failure = error
                self._workers = {rank: each for rank, each in self._workers.items() if each is not worker}
                log_event(f"a worker of a pool cannot be started: {error}")
                time.sleep(pause)
            else:
                return worker
        if not self._workers:
            self.last_failed, self.start_error = self._last_ended, failure
            self._results.put(NONE_STARTS)
        return _NoWorker(1)

    def _notice_ends(self) -> None:
        ended = [(rank, worker) for rank, worker in self._workers.items() if worker.exitcode is not None]
        if not ended:
            return
        taken = self._tasks._taken_count()
        claims, progress = self.running.claims(), self.running.progress()
        self._count_failures(ended, progress)
        for rank, worker in ended:
            claim = claims[rank]
            self.running.clear_claim(rank)
            claims[rank] = 0
            del self._workers[rank]
            self._last_ended = worker
            # A worker claims a task before it counts it as taken.
            if 0 < claim <= taken and claim not in claims:
                self.ended[claim - 1] = worker
                self._results.put(claim - 1)
            if worker.exitcode:
                rest = "it is replaced" if self.last_failed is None else "no other one is started"
                log_event(f"worker {worker.pid} of a pool ended with exit code {worker.exitcode}; {rest}")

    def _count_failures(self, ended: list[tuple[int, BaseProcess]], progress: list[int]) -> None:
        ready = {rank for rank in self._starting if progress[rank] == READY}
        if ready:
            self._starting -= ready
            self._failures, self._one_was_ready = 0, True
        for rank, worker in ended:
            if rank not in self._starting:
                continue
            self._starting.remove(rank)
            # Any process may have sent a signal, unless it came in the initializer or no worker ever started.
            exited = worker.exitcode is not None and worker.exitcode >= 0
            if exited or progress[rank] == INITIALIZING or not self._one_was_ready:
                self._failures += 1
            if self._failures == _MOST_FAILURES:
                self.last_failed = worker
                self._results.put(NONE_STARTS)


class _NoWorker:
    """Takes the place of a worker that is not started; unless it has an exit code, it ends with the pool."""

    name, daemon, pid = "", True, None

    def __init__(self, exitcode: int | None = None) -> None:
        self.exitcode = exitcode

    def start(self) -> None:
        pass

    terminate = join = start

    def is_alive(self) -> bool:
        return False


class _Replacement:
    """A worker in the standard library's list, which names and starts it."""

    name, daemon = "", True
    _worker: Any = None

    def __init__(self, start: Callable[[], Any]) -> None:
        self._start = start

    def start(self) -> None:
        self._worker = self._start()
        self.name = self._worker.name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._worker, name)
