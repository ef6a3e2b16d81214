"""A pool whose tasks fail if their worker dies.

The standard library's pool waits indefinitely for the result of a worker that was killed. Here each worker
writes the position of a task in the queue of tasks into shared memory before it takes the task. When a worker
has ended, the pool's process looks up its task and puts a notice into the queue of results, behind every
result that the worker has put. `_pool/workers.py` has the argument.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Sized
from concurrent.futures import CancelledError
from multiprocessing import pool
from multiprocessing.connection import Pipe
from typing import TYPE_CHECKING, Any, TypeVar

from shmtensor._queue.labels import label_of_kind
from shmtensor._values import NO_LIMIT, check_integer
from shmtensor.multiprocessing._pool.buffered import buffered
from shmtensor.multiprocessing._pool.callbacks import reporting
from shmtensor.multiprocessing._pool.naming import describe
from shmtensor.multiprocessing._pool.options import WithOptions, with_options
from shmtensor.multiprocessing._pool.room import wake
from shmtensor.multiprocessing._pool.tasks import Tasks
from shmtensor.multiprocessing._pool.workers import Workers
from shmtensor.multiprocessing.queues import SimpleQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from multiprocessing.pool import ThreadPool as ThreadPool  # noqa: PLC0414  # exported

    from typing_extensions import Unpack

    from shmtensor.multiprocessing._pool.options import TaskOptions

__all__ = ["Pool", "TaskResult"]
__dir__ = __all__.copy

_Result = TypeVar("_Result")
_Item = TypeVar("_Item")

_ANSWER = 10.0  # seconds, at most, until a message of the pool's process to itself is received


def __getattr__(name: str) -> Any:
    return getattr(pool, name)  # everything that is not replaced here


class Pool(pool.Pool):
    """A pool of worker processes; see `multiprocessing.pool.Pool`.

    Each task is answered. One whose worker ends before it has sent the result fails with `WorkerLost`, and
    the pool continues with a new worker. A task, result or exception that cannot be unpickled is an
    `UnpicklingError` of that task. What a callback raises is reported by `threading.excepthook`.

    If three workers end one after the other before they can take a task, as by an initializer that raises, no
    more are started, and all tasks fail with `WorkerLost`. If the system starts no process for a second, the
    pool continues without that worker until another one ends; without any worker, all tasks fail, too.

    A large array that is an argument of several tasks, as in a `functools.partial`, is copied for the first
    one, and once more for all others while it is not changed; each task has it as its own. That copy is freed
    with the array, or when the pool has ended.

    Methods that run tasks have more keyword arguments:

    timeout : float, optional
        Seconds from the beginning of the call in its worker.
    max_bytes : int, optional
        Private memory of the worker, beyond what it has when the call begins.
    retries : int, default 0
        So often a task whose worker is killed, or exits, is run again. The pool keeps its arguments.
    progress : bool or callable, default False
        True: progress is printed to standard error. A function is called with the number of calls that have
        a result, and with that of all, None if it is not known.

    The worker of a task above a limit is killed and replaced, and only that task fails, with `TaskTimeout` or
    `TaskMemory`. With a limit, or retries, a task of `map` and `starmap` is one item, unless `chunksize` is
    given. Processes that the task has started end with the worker; their memory is not counted.

    `imap` and `imap_unordered` have `buffersize`, too, as in Python 3.15: so many items, at most, are taken
    from the iterable and have no result that was asked for.
    """

    def _setup_queues(self) -> None:
        context: Any = self._ctx
        method = context.get_start_method()
        self._inqueue, self._outqueue = (_queue(context, kind) for kind in ("tasks", "results"))
        self._workers = workers = Workers(self._inqueue, self._outqueue, type(self).Process)
        self._tasks = tasks = Tasks(self._inqueue, self._outqueue, workers, method)
        self._quick_put, self._quick_get = tasks.put, tasks.next_result
        self.Process = workers.new  # type: ignore[assignment, method-assign]
        self._ctx: Any = copy.copy(context)
        self._ctx.SimpleQueue = _Notifier

    def _repopulate_pool(self) -> None:
        super()._repopulate_pool()  # type: ignore[misc]  # of a first worker, the caller gets the error
        self.Process = self._workers.replace  # type: ignore[assignment, method-assign]

    def apply_async(  # type: ignore[override]
        self,
        func: Callable[..., _Result],
        args: Iterable[Any] = (),
        kwds: dict[str, Any] = {},  # noqa: B006  # as in the standard library
        callback: Callable[[_Result], object] | None = None,
        error_callback: Callable[[BaseException], object] | None = None,
        **options: Unpack[TaskOptions],
    ) -> TaskResult[_Result]:
        """Run a call in a worker; see `multiprocessing.pool.Pool.apply_async`."""
        func = with_options(func, options)
        self._check_running()  # type: ignore[attr-defined]
        result: Any = TaskResult(self, _or_none(callback), _or_none(error_callback))
        self._tasks.expect(result._job)
        self._taskqueue.put(([(result._job, 0, func, args, kwds)], None))  # type: ignore[attr-defined]
        return result  # type: ignore[no-any-return]

    def apply(  # type: ignore[override]
        self,
        func: Callable[..., _Result],
        args: Iterable[Any] = (),
        kwds: dict[str, Any] = {},  # noqa: B006
        **options: Unpack[TaskOptions],
    ) -> _Result:
        """Return the result of a call in a worker."""
        return self.apply_async(func, args, kwds, **options).get()

    def map(
        self,
        func: Callable[[_Item], _Result],
        iterable: Iterable[_Item],
        chunksize: int | None = None,
        **options: Unpack[TaskOptions],
    ) -> list[_Result]:
        """Return the results of a call for each item; see `multiprocessing.pool.Pool.map`."""
        return super().map(with_options(func, options), iterable, chunksize)

    def map_async(
        self,
        func: Callable[[_Item], _Result],
        iterable: Iterable[_Item],
        chunksize: int | None = None,
        callback: Callable[[list[_Result]], object] | None = None,
        error_callback: Callable[[BaseException], object] | None = None,
        **options: Unpack[TaskOptions],
    ) -> pool.MapResult[_Result]:
        """Run a call for each item; see `multiprocessing.pool.Pool.map_async`."""
        func = with_options(func, options)
        return super().map_async(func, iterable, chunksize, callback, error_callback)

    def starmap(
        self,
        func: Callable[..., _Result],
        iterable: Iterable[Iterable[Any]],
        chunksize: int | None = None,
        **options: Unpack[TaskOptions],
    ) -> list[_Result]:
        """Return the results of a call for each tuple; see `multiprocessing.pool.Pool.starmap`."""
        return super().starmap(with_options(func, options), iterable, chunksize)

    def starmap_async(
        self,
        func: Callable[..., _Result],
        iterable: Iterable[Iterable[Any]],
        chunksize: int | None = None,
        callback: Callable[[list[_Result]], object] | None = None,
        error_callback: Callable[[BaseException], object] | None = None,
        **options: Unpack[TaskOptions],
    ) -> pool.AsyncResult[list[_Result]]:
        """Run a call for each tuple; see `multiprocessing.pool.Pool.starmap_async`."""
        func = with_options(func, options)
        return super().starmap_async(func, iterable, chunksize, callback, error_callback)

    def imap(
        self,
        func: Callable[[_Item], _Result],
        iterable: Iterable[_Item],
        chunksize: int | None = 1,
        *,
        buffersize: int | None = None,
        **options: Unpack[TaskOptions],
    ) -> pool.IMapIterator[_Result]:
        """Yield the results of a call for each item; see `multiprocessing.pool.Pool.imap`."""
        return self._iterate(super().imap, with_options(func, options), iterable, chunksize, buffersize)

    def imap_unordered(
        self,
        func: Callable[[_Item], _Result],
        iterable: Iterable[_Item],
        chunksize: int | None = 1,
        *,
        buffersize: int | None = None,
        **options: Unpack[TaskOptions],
    ) -> pool.IMapIterator[_Result]:
        """Yield the results as they come; see `multiprocessing.pool.Pool.imap_unordered`."""
        return self._iterate(
            super().imap_unordered, with_options(func, options), iterable, chunksize, buffersize
        )

    @staticmethod
    def _iterate(
        start: Callable[..., pool.IMapIterator[Any]],
        func: Callable[..., Any],
        iterable: Iterable[Any],
        chunksize: int | None,
        buffersize: int | None,
    ) -> pool.IMapIterator[Any]:
        if isinstance(func, WithOptions) and func.options.progress is not None:
            func.options.progress.total = len(iterable) if isinstance(iterable, Sized) else None
        if buffersize is None:
            return start(func, iterable, chunksize)
        results: pool.IMapIterator[Any] = buffered(
            lambda items: start(func, items, chunksize), iterable, buffersize, chunksize or 1
        )
        return results

    def _map_async(  # noqa: PLR0917  # as in the standard library
        self,
        func: Callable[..., Any],
        iterable: Iterable[Any],
        mapper: Any,
        chunksize: int | None = None,
        callback: Callable[[Any], object] | None = None,
        error_callback: Callable[[BaseException], object] | None = None,
    ) -> Any:
        self._check_running()  # type: ignore[attr-defined]
        items: Any = iterable if hasattr(iterable, "__len__") else list(iterable)
        if chunksize is None:
            # The standard library divides by the number of its workers, which is 0 if all have just ended.
            chunksize = max(-(-len(items) // (4 * self._processes)), 1)  # type: ignore[attr-defined]
            if isinstance(func, WithOptions):
                chunksize = min(chunksize, func.options.chunksize(len(items)))
        elif len(items):
            chunksize = check_integer("chunksize", chunksize, 1)
        if isinstance(func, WithOptions) and func.options.progress is not None:
            func.options.progress.total = len(items)
        return super()._map_async(  # type: ignore[misc]
            func, items, mapper, chunksize, _or_none(callback), _or_none(error_callback)
        )

    def _guarded_task_generation(self, result_job: int, func: Any, iterable: Iterable[Any]) -> Any:
        return super()._guarded_task_generation(result_job, func, _without_exits(iterable))  # type: ignore[misc]

    def _get_sentinels(self) -> list[Any]:
        return [self._change_notifier._reader]  # type: ignore[attr-defined]

    @staticmethod
    def _help_stuff_finish(inqueue: Any, task_handler: Any, size: int) -> None:  # noqa: ARG004
        wake(task_handler)
        limits = inqueue._limits()
        if limits is not None:
            limits.end()


class TaskResult(pool.ApplyResult[_Result]):
    """The result of a call that can be cancelled; see `multiprocessing.pool.AsyncResult`."""

    def cancel(self) -> bool:
        """Cancel the call, of which `get` raises `concurrent.futures.CancelledError` then.

        A call that waits will not run. The worker of one that runs is killed, and replaced.

        Returns
        -------
        bool
            False if the call has another result, or is about to have it.
        """
        return self._cancel(running=True)

    def _cancel(self, *, running: bool) -> bool:
        """Cancel the call; without `running`, only if no worker runs it."""
        owner: Any = self._pool  # type: ignore[attr-defined]  # None if there is a result
        if owner is None:
            return self.cancelled()
        is_certain: bool | None = owner._tasks.cancel(self._job, running=running)  # type: ignore[attr-defined]
        if is_certain is not None or threading.current_thread() is owner._result_handler:
            return is_certain is True
        self.wait(_ANSWER)
        return self.cancelled()

    def _is_running(self) -> bool:
        owner: Any = self._pool  # type: ignore[attr-defined]
        return owner is not None and owner._tasks.is_running(self._job)  # type: ignore[attr-defined]

    def cancelled(self) -> bool:
        """Return True if `get` raises `CancelledError`."""
        return self.ready() and isinstance(self._value, CancelledError)  # type: ignore[attr-defined]


def _queue(context: Any, kind: str) -> SimpleQueue[Any]:
    # Tasks are bounded by `Room`, and results are always taken.
    return SimpleQueue(max_bytes=NO_LIMIT, label=label_of_kind(f"pool {kind}"), ctx=context)


class _Notifier:
    """Wakes the thread that starts workers. The standard library's queue has a lock, which needs /dev/shm."""

    def __init__(self) -> None:
        self._reader, self._writer = Pipe(duplex=False)
        self.get = self._reader.recv_bytes

    def put(self, _: None) -> None:
        self._writer.send_bytes(b"")  # one system call, so threads need no lock

    def empty(self) -> bool:
        return not self._reader.poll()


def _or_none(callback: Callable[[Any], object] | None) -> Callable[[Any], object] | None:
    return None if callback is None else reporting(callback)


def _without_exits(iterable: Iterable[Any]) -> Iterator[Any]:
    """Yield the items; an exception that would end the thread that puts tasks becomes another one."""
    try:
        yield from iterable
    except (Exception, GeneratorExit):
        raise
    except BaseException as error:
        raise RuntimeError(f"the iterable of the tasks raised {describe(error)}") from error
