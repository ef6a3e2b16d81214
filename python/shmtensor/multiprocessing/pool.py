"""A pool whose tasks fail if their worker dies.

The standard library's pool waits indefinitely for the result of a worker that was killed. Here each worker
writes the position of a task in the queue of tasks into shared memory before it takes the task. When a worker
has ended, the pool's process looks up its task and puts a notice into the queue of results, behind every
result that the worker has put. `_pool/workers.py` has the argument.
"""

from __future__ import annotations

import copy
import threading
from contextlib import suppress
from multiprocessing import pool
from typing import TYPE_CHECKING, Any, TypeVar

from shmtensor.multiprocessing._pool.naming import describe
from shmtensor.multiprocessing._pool.room import wake
from shmtensor.multiprocessing._pool.tasks import Tasks
from shmtensor.multiprocessing._pool.workers import Workers
from shmtensor.multiprocessing.connection import Pipe
from shmtensor.multiprocessing.queues import SimpleQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from multiprocessing.pool import ThreadPool as ThreadPool  # noqa: PLC0414  # exported

__all__ = ["Pool"]

_Result = TypeVar("_Result")


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    return getattr(pool, name)  # everything that is not replaced here


class Pool(pool.Pool):
    """A pool of worker processes; see `multiprocessing.pool.Pool`.

    Each task is answered. One whose worker ends before it has sent the result fails with `WorkerLost`, and
    the pool continues with a new worker. A task, result or exception that cannot be unpickled is an
    `UnpicklingError` of that task. What a callback raises is reported by `threading.excepthook`.

    If three workers end one after the other before they can take a task, as by an initializer that raises, no
    more are started, and all tasks fail with `WorkerLost`.
    """

    def _setup_queues(self) -> None:
        context: Any = self._ctx
        method = context.get_start_method()
        self._inqueue: SimpleQueue[Any] = SimpleQueue(ctx=context)
        self._outqueue: SimpleQueue[Any] = SimpleQueue(ctx=context)
        workers = Workers(self._inqueue, self._outqueue)
        tasks = Tasks(self._inqueue, self._outqueue, workers, method)
        self._quick_put, self._quick_get = tasks.put, tasks.next_result
        self.Process = workers.new  # type: ignore[assignment, method-assign]
        self._ctx: Any = copy.copy(context)
        self._ctx.SimpleQueue = _Notifier

    def apply_async(  # type: ignore[override]
        self,
        func: Callable[..., _Result],
        args: Iterable[Any] = (),
        kwds: dict[str, Any] = {},  # noqa: B006  # as in the standard library
        callback: Callable[[_Result], object] | None = None,
        error_callback: Callable[[BaseException], object] | None = None,
    ) -> pool.AsyncResult[_Result]:
        """Run a call in a worker; see `multiprocessing.pool.Pool.apply_async`."""
        return super().apply_async(func, args, kwds, _reporting(callback), _reporting(error_callback))

    def _map_async(  # noqa: PLR0917  # as in the standard library
        self,
        func: Callable[..., Any],
        iterable: Iterable[Any],
        mapper: Any,
        chunksize: int | None = None,
        callback: Callable[[Any], object] | None = None,
        error_callback: Callable[[BaseException], object] | None = None,
    ) -> Any:
        if chunksize is None:
            self._check_running()  # type: ignore[attr-defined]
            tasks: Any = iterable if hasattr(iterable, "__len__") else list(iterable)
            # The standard library divides by the number of its workers, which is 0 if all have just ended.
            chunksize = max(-(-len(tasks) // (4 * self._processes)), 1)  # type: ignore[attr-defined]
            iterable = tasks
        return super()._map_async(  # type: ignore[misc]
            func, iterable, mapper, chunksize, _reporting(callback), _reporting(error_callback)
        )

    def _guarded_task_generation(self, result_job: int, func: Any, iterable: Iterable[Any]) -> Any:
        return super()._guarded_task_generation(result_job, func, _without_exits(iterable))  # type: ignore[misc]

    def _get_sentinels(self) -> list[Any]:
        return [self._change_notifier._reader]  # type: ignore[attr-defined]

    @staticmethod
    def _help_stuff_finish(inqueue: Any, task_handler: Any, size: int) -> None:  # noqa: ARG004
        wake(task_handler)


class _Notifier:
    """Wakes the thread that starts workers. The standard library's queue has a lock, which needs /dev/shm."""

    def __init__(self) -> None:
        self._reader, self._writer = Pipe(duplex=False)
        self.get = self._reader.recv_bytes

    def put(self, _: None) -> None:
        self._writer.send_bytes(b"")  # one system call, so threads need no lock

    def empty(self) -> bool:
        return not self._reader.poll()


def _reporting(callback: Callable[[Any], object] | None) -> Callable[[Any], object] | None:
    """Return a callback that reports what it raises, and does not end the thread that receives results."""
    if callback is None:
        return None

    def call(value: Any) -> None:
        try:
            callback(value)
        except BaseException as error:
            if isinstance(error, SystemExit):  # which the hook would not report
                error = RuntimeError(f"a callback of a pool raised {describe(error)}")
            with suppress(Exception):
                threading.excepthook(
                    threading.ExceptHookArgs(
                        (type(error), error, error.__traceback__, threading.current_thread())
                    )
                )

    return call


def _without_exits(iterable: Iterable[Any]) -> Iterator[Any]:
    """Yield the items; an exception that would end the thread that puts tasks becomes another one."""
    try:
        yield from iterable
    except (Exception, GeneratorExit):
        raise
    except BaseException as error:
        raise RuntimeError(f"the iterable of the tasks raised {describe(error)}") from error
