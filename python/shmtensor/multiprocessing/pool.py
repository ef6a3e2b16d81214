"""A pool whose tasks fail if their worker dies.

The standard library's pool waits indefinitely for the result of a worker that was killed. Here each worker
writes the position of a task in the queue of tasks into shared memory before it takes the task. When a worker
has ended, the pool's process looks up its task and puts a notice into the queue of results, behind every
result that the worker has put. docs/design/queue.md has the argument.
"""

from __future__ import annotations

import copy
import threading
from itertools import count
from multiprocessing import pool
from multiprocessing import queues as std
from typing import TYPE_CHECKING, Any

from shmtensor._log import log_event
from shmtensor.creation import zeros
from shmtensor.multiprocessing._by_value.reducer import dumps_by_name, dumps_by_value
from shmtensor.multiprocessing.errors import WorkerLost
from shmtensor.multiprocessing.queues import SimpleQueue

if TYPE_CHECKING:
    from multiprocessing.pool import ThreadPool as ThreadPool  # noqa: PLC0414  # exported
    from multiprocessing.process import BaseProcess

    from shmtensor.tensor import Tensor

__all__ = ["Pool"]

_MOST_WORKERS = 1024  # that a session has at the same time


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    return getattr(pool, name)  # everything that is not replaced here


class Pool(pool.Pool):
    """A pool of worker processes; see `multiprocessing.pool.Pool`.

    A task whose worker ends before it has sent the result fails with `WorkerLost`, and the pool continues
    with a new worker.
    """

    def _setup_queues(self) -> None:
        context: Any = self._ctx
        self._inqueue: SimpleQueue[Any] = SimpleQueue(ctx=context)
        self._outqueue: SimpleQueue[Any] = SimpleQueue(ctx=context)
        self._inqueue._dumps = dumps_by_value if context.get_start_method() == "server" else dumps_by_name
        tasks = _Tasks(self._inqueue, self._outqueue)
        self._quick_put, self._quick_get = tasks.put, tasks.next_result
        self.Process = tasks.new_worker  # type: ignore[assignment, method-assign]
        # The pool notifies its own thread through a pipe.
        self._ctx: Any = copy.copy(context)
        self._ctx.SimpleQueue = lambda: std.SimpleQueue(ctx=context)

    def _get_sentinels(self) -> list[Any]:
        return [self._change_notifier._reader]  # type: ignore[attr-defined]

    @staticmethod
    def _help_stuff_finish(inqueue: Any, task_handler: Any, size: int) -> None:
        pass  # `put` never blocks


class _Tasks:
    """The tasks that were put and have no result yet, and which worker has which.

    One thread puts, one gets results, and one starts workers and notices their ends.
    """

    def __init__(self, tasks: SimpleQueue[Any], results: SimpleQueue[Any]) -> None:
        self._tasks, self._results = tasks, results
        self._claims = zeros(_MOST_WORKERS, dtype="uint64")  # by rank: position of the task, plus 1
        self._workers: dict[int, BaseProcess] = {}  # by rank
        self._lock = threading.Lock()
        self._open: dict[tuple[int, int | None], tuple[int, str]] = {}  # by job and index: position, name
        # By the position of the last task. The notice among the results is only that number, for which no
        # memory is allocated: a worker may have been killed because there is none.
        self._ended: dict[int, BaseProcess] = {}

    def put(self, task: Any) -> None:
        if task is None:  # the end of a worker
            return self._tasks.put(None)
        key = task[:2]
        with self._lock:
            self._open[key] = self._tasks._put_count(), _name(*task[2:4])
        try:
            self._tasks.put(task)
        except BaseException:
            with self._lock:
                del self._open[key]
            raise

    def next_result(self) -> Any:
        while True:
            result = self._results.get()
            if result is None:
                return None
            if not isinstance(result, int):
                with self._lock:
                    self._open.pop(result[:2], None)
                return result
            if lost := self._fail(result):
                return lost

    def _fail(self, last: int) -> Any:
        """Return the result of a task whose worker has ended; None if it was answered before."""
        worker = self._ended.pop(last)
        with self._lock:
            for key, (position, name) in self._open.items():
                if position == last:
                    del self._open[key]
                    return *key, (False, WorkerLost(name, worker.pid, worker.exitcode))
        return None

    def new_worker(self, context: Any, *, target: Any, args: Any) -> BaseProcess:
        """Return a process in place of those that have ended, before it is started."""
        self._give_up_lost_tasks()
        rank = next(rank for rank in count() if rank not in self._workers)
        tasks, *others = args
        worker: BaseProcess = context.Process(
            target=target, args=(_TaskReader(tasks, self._claims, rank), *others)
        )
        self._workers[rank] = worker
        return worker

    def _give_up_lost_tasks(self) -> None:
        ended = [(rank, worker) for rank, worker in self._workers.items() if worker.exitcode is not None]
        if not ended:
            return
        taken = self._tasks._taken_count()
        claims = self._claims.tolist()
        for rank, worker in ended:
            claim = claims[rank]
            self._claims[rank] = claims[rank] = 0
            del self._workers[rank]
            if worker.exitcode:
                log_event(
                    f"worker {worker.pid} of a pool ended with exit code {worker.exitcode}; it is replaced"
                )
            # A worker claims a task before it counts it as taken.
            if 0 < claim <= taken and claim not in claims:
                self._ended[claim - 1] = worker
                self._results.put(claim - 1)


class _TaskReader:
    """The queue of tasks, as a worker uses it."""

    def __init__(self, tasks: SimpleQueue[Any], claims: Tensor, rank: int) -> None:
        self._tasks, self._claims, self._rank = tasks, claims, rank
        self._is_claiming = False

    def get(self) -> Any:
        if not self._is_claiming:
            self._is_claiming = True
            self._tasks._claim_in(self._claims.storage(), self._rank)
        return self._tasks.get()


def _name(function: Any, arguments: Any) -> str:
    """Return the name of a task's function; `map` calls it through one of the pool's."""
    if function in (pool.mapstar, pool.starmapstar):  # type: ignore[attr-defined]
        function = arguments[0][0]
    return getattr(function, "__qualname__", None) or repr(function)
