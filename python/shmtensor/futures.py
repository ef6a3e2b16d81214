"""An executor with the interface of `concurrent.futures`, on the `Pool` of this package."""

from __future__ import annotations

import itertools
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Sized
from concurrent import futures
from concurrent.futures import CancelledError
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import process, util
from typing import TYPE_CHECKING, Any, TypeVar

from shmtensor._values import check_integer
from shmtensor.multiprocessing import errors
from shmtensor.multiprocessing._pool import worker
from shmtensor.multiprocessing._pool.naming import name_of
from shmtensor.multiprocessing._pool.options import Progress
from shmtensor.multiprocessing.context import SharingContext, default_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from shmtensor.multiprocessing.pool import Pool, TaskResult

__all__ = ["Future", "ProcessPoolExecutor", "WorkerLost"]

_Result = TypeVar("_Result")

# Before the functions of `atexit`, which may remove what calls use, as the standard library's executors do.
_AT_EXIT = 100  # the priority; that of the pools, which are terminated, is 15
threading._register_atexit(util._run_finalizers, _AT_EXIT)  # type: ignore[attr-defined]


class WorkerLost(errors.WorkerLost, BrokenProcessPool):
    """The worker of a call ended before it had sent the result; see `shmtensor.multiprocessing.WorkerLost`.

    The executor is not broken.
    """


class Future(futures.Future[_Result]):
    """The result of a call in a worker; see `concurrent.futures.Future`."""

    def __init__(self) -> None:
        super().__init__()
        self._task: TaskResult[_Result] | None = None
        self._notified = threading.Lock()  # by whoever is the first to notify of the cancellation

    def running(self) -> bool:
        """Return True if a worker runs the call at present."""
        return self._task is not None and not self.done() and self._task._is_running()

    def cancel(self) -> bool:
        """Cancel the call: one that waits will not run, and the worker of one that runs is killed.

        Returns
        -------
        bool
            False if the call has a result, or is about to have it.
        """
        return self._cancel(running=True)

    def _cancel(self, *, running: bool) -> bool:
        if self.done():
            return self.cancelled()
        if self._task is None or not self._task._cancel(running=running):
            return False
        self._be_cancelled()
        return True

    def _be_cancelled(self) -> None:
        if super().cancel() and self._notified.acquire(blocking=False):
            self.set_running_or_notify_cancel()

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, CancelledError) and error.__cause__ is None:  # not that of the call
            self._be_cancelled()
        else:
            self.set_exception(error)


class ProcessPoolExecutor(futures.Executor):
    """Runs calls in worker processes; see `concurrent.futures.ProcessPoolExecutor`.

    A worker that is killed fails its own call, with `WorkerLost`, and is replaced; no executor breaks. If
    three workers end one after the other before they can take a call, as by an initializer that raises, all
    calls fail with `WorkerLost`. A call that runs can be cancelled. Arguments and results are sent as by
    `Pool`: tensors as handles, large buffers once through shared memory.

    Parameters
    ----------
    max_workers
        The number of workers; None: of processors. They start with the first call.
    mp_context
        What starts them; None: the default. For one of another module, that of the same start method is used.
    initializer, initargs
        A call at the beginning of each worker.
    max_tasks_per_child
        After so many calls a worker is replaced; None: never.

    Examples
    --------
    >>> from shmtensor.futures import ProcessPoolExecutor
    >>> with ProcessPoolExecutor(2) as executor:
    ...     executor.submit(pow, 2, 10).result()
    1024
    """

    def __init__(
        self,
        max_workers: int | None = None,
        mp_context: Any = None,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        *,
        max_tasks_per_child: int | None = None,
    ) -> None:
        if max_workers is not None and (max_workers := check_integer("max_workers", max_workers)) <= 0:
            msg = "max_workers must be greater than 0"
            raise ValueError(msg)
        if initializer is not None and not callable(initializer):
            msg = "initializer must be a callable"
            raise TypeError(msg)
        if max_tasks_per_child is not None:
            max_tasks_per_child = check_integer("max_tasks_per_child", max_tasks_per_child, 1)
        self._max_workers = max_workers or os.cpu_count() or 1
        if mp_context is not None and not isinstance(mp_context, SharingContext):
            mp_context = default_context.get_context(mp_context.get_start_method())
        self._mp_context = mp_context or default_context
        self._arguments = _start_worker, (initializer, initargs), max_tasks_per_child
        self._pool: Pool | None = None
        self._is_shut_down = False
        self._lock = threading.Lock()
        self._open: set[Future[Any]] = set()

    def submit(self, fn: Callable[..., _Result], /, *args: Any, **kwargs: Any) -> Future[_Result]:
        """Run a call in a worker; see `concurrent.futures.Executor.submit`.

        Raises
        ------
        RuntimeError
            If the executor is shut down.
        """
        with self._lock:
            if self._is_shut_down:
                msg = "cannot schedule new futures after shutdown"
                raise RuntimeError(msg)
            if self._pool is None:
                self._pool = pool = self._mp_context.Pool(self._max_workers, *self._arguments)
                pool._tasks.lost = WorkerLost
                weakref.finalize(self, pool.close).atexit = False
                util.Finalize(pool, _finish, (weakref.ref(self), weakref.ref(pool)), exitpriority=_AT_EXIT)
            future: Future[_Result] = Future()
            self._open.add(future)
            future.add_done_callback(self._open.discard)
            future._task = self._pool.apply_async(fn, args, kwargs, future.set_result, future._fail)
        return future

    def map(
        self,
        fn: Callable[..., _Result],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
        progress: bool | Callable[[int, int | None], object] = False,
    ) -> Iterator[_Result]:
        """Yield the results of calls, in the order of the items; see `concurrent.futures.Executor.map`.

        Parameters
        ----------
        fn, iterables
            The function, and its arguments.
        timeout
            Seconds, from this call on, after which the iterator raises TimeoutError; None: never.
        chunksize
            So many calls are one task.
        buffersize
            So many tasks are submitted before their results are asked for; None: all of them.
        progress
            As for the methods of `Pool`.
        """
        if chunksize < 1:
            msg = "chunksize must be >= 1."
            raise ValueError(msg)
        if buffersize is not None and buffersize < 1:
            msg = "buffersize must be None or > 0"
            raise ValueError(msg)
        end = None if timeout is None else timeout + time.monotonic()
        shown = Progress(progress, name_of(fn)) if progress else None
        if shown is not None and iterables and all(isinstance(items, Sized) for items in iterables):
            shown.total = min(map(len, iterables))  # type: ignore[arg-type]
        chunks = _chunks(zip(*iterables), chunksize)  # noqa: B905  # as long as the shortest
        rest = (self._submit_chunk(fn, chunk, shown) for chunk in chunks)
        return self._results(deque(itertools.islice(rest, buffersize)), rest, end)

    def _submit_chunk(
        self, fn: Callable[..., _Result], chunk: list[tuple[Any, ...]], shown: Progress | None
    ) -> Future[list[_Result]]:
        future = self.submit(_run_chunk, fn, chunk)
        if shown is not None:
            future.add_done_callback(partial(_show, shown, len(chunk)))
        return future

    @staticmethod
    def _results(
        waiting: deque[Future[list[_Result]]], rest: Iterator[Future[list[_Result]]], end: float | None
    ) -> Iterator[_Result]:
        try:
            while waiting:
                left = None if end is None else end - time.monotonic()
                results = waiting[0].result(left)
                waiting.popleft()
                waiting.extend(itertools.islice(rest, 1))
                results.reverse()
                while results:
                    yield results.pop()  # without a reference to it
        finally:
            for future in waiting:
                future._cancel(running=False)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls; see `concurrent.futures.Executor.shutdown`.

        Parameters
        ----------
        wait
            Return when all calls have a result and the workers have ended.
        cancel_futures
            Cancel the calls that no worker runs.
        """
        with self._lock:
            self._is_shut_down = True
            pool = self._pool
        if pool is None:
            return
        if cancel_futures:
            for future in list(self._open):
                future._cancel(running=False)
        pool.close()
        if wait:
            if threading.current_thread() is pool._result_handler:  # type: ignore[attr-defined]  # in a callback
                msg = "cannot join current thread"  # as the standard library's executor
                raise RuntimeError(msg)
            pool.join()

    def terminate_workers(self) -> None:
        """Send SIGTERM to the workers, whose calls fail with `WorkerLost`; cancel the others; shut down."""
        self._end_workers("terminate")

    def kill_workers(self) -> None:
        """Kill the workers, whose calls fail with `WorkerLost`; cancel the others; shut down."""
        self._end_workers("kill")

    def _end_workers(self, method: str) -> None:
        self.shutdown(wait=False, cancel_futures=True)
        for one in self._processes.values():
            getattr(one, method)()

    @property
    def _processes(self) -> dict[int, process.BaseProcess]:
        """The workers; before Python 3.14, programs end those of the standard library by this name."""
        pool: Any = self._pool
        return {} if pool is None else {one.pid: one for one in list(pool._pool) if one.pid is not None}


def _chunks(items: Iterable[tuple[Any, ...]], size: int) -> Iterator[list[tuple[Any, ...]]]:
    iterator = iter(items)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk


def _show(shown: Progress, calls: int, future: Future[Any]) -> None:
    if not future.cancelled():
        shown.add(calls)


def _run_chunk(fn: Callable[..., _Result], chunk: list[tuple[Any, ...]]) -> list[_Result]:
    return [fn(*arguments) for arguments in chunk]


def _start_worker(initializer: Callable[..., object] | None, initargs: tuple[Any, ...]) -> None:
    """Let calls start processes and raise any exception, as in workers of the standard library's executor."""
    process.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    worker.caught = BaseException
    if initializer is not None:
        initializer(*initargs)


def _finish(executor: weakref.ref[ProcessPoolExecutor], pool: weakref.ref[Pool]) -> None:
    """Let the calls of an executor that was not shut down end, at the end of the process."""
    if (open_one := executor()) is not None:
        open_one.shutdown(wait=False)
    if (running := pool()) is not None:
        running.close()
        running.join()
