"""The tasks of a pool that have no result yet."""

from __future__ import annotations

import pickle
import threading
import time
import weakref
from collections import deque
from concurrent.futures import CancelledError
from multiprocessing import pool
from typing import TYPE_CHECKING, Any, NamedTuple

from shmtensor._pickling import dumps_by
from shmtensor.multiprocessing._pool.arguments import Repeated, pickler_of_tasks
from shmtensor.multiprocessing._pool.limits import Limits, Stopped
from shmtensor.multiprocessing._pool.naming import describe, name_of
from shmtensor.multiprocessing._pool.options import NO_OPTIONS, Options, WithOptions
from shmtensor.multiprocessing._pool.room import Room
from shmtensor.multiprocessing._pool.running import MEASURED, TIMED
from shmtensor.multiprocessing._pool.worker import Answer, StartFailure, Unreadable, last_loaded
from shmtensor.multiprocessing._pool.workers import NONE_STARTS, Workers
from shmtensor.multiprocessing.errors import WorkerLost, end_of
from shmtensor.multiprocessing.start_method import advice_on_main

if TYPE_CHECKING:
    from collections.abc import Callable

    from shmtensor.multiprocessing.queues import SimpleQueue

_NOT_PUT, _CANCELLED = -1, -2  # in place of a position: not put yet; not put, or put no more
_PAUSE = 0.1  # seconds until the results are read again if they cannot be: descriptors may be short

_pool: Any = pool  # whose private functions are not in its stub


class _Cancelled(NamedTuple):
    """A job that was cancelled, for the thread that receives results."""

    job: int
    position: int  # of its task, or a constant above


class _Open(NamedTuple):
    job: int
    part: int | None
    name: str
    options: Options
    calls: int
    raised: BaseException | None = None  # by the iterable of the tasks, in place of this one
    call: tuple[Any, Any, Any] | None = None  # function and arguments if it can be put again


class Tasks:
    """The tasks that were put and have no result yet.

    One thread puts, and one takes results. Each task has one result: none is passed on for a task that is not
    open.
    """

    def __init__(
        self, tasks: SimpleQueue[Any], results: SimpleQueue[Any], workers: Workers, method: str
    ) -> None:
        self._tasks, self._results, self._workers = tasks, results, workers
        self._method = method
        self._room = room = Room()
        self._repeated = repeated = Repeated()
        tasks._dumps = dumps_by(
            pickler_of_tasks(method, repeated), room.add
        )  # before a worker can take the task
        self._open: dict[int, _Open] = {}  # by position in the queue
        self._outcomes: deque[tuple[int, int | None, tuple[bool, Any]]] = deque()  # for the pool
        self._unsent = 0  # tasks, because no worker would take them
        self._has_ended = False
        self._start_failure: StartFailure | None = None
        self.lost: type[WorkerLost] = WorkerLost
        self._limits = Limits(workers)
        tasks._limits = weakref.ref(self._limits)  # type: ignore[attr-defined]  # for the end of the pool
        self._positions: dict[int, int] = {}  # of jobs that can be cancelled; or one of the constants above
        self._lock = threading.Lock()  # of the positions
        self._put_lock = threading.Lock()  # a task has the position of the next message

    def expect(self, job: int) -> None:
        """Add a job of one task, which can be cancelled from now on."""
        self._positions[job] = _NOT_PUT

    def is_running(self, job: int) -> bool:
        """Return True if a worker runs the job."""
        position = self._positions.get(job, _NOT_PUT)
        return position >= 0 and self._workers.running.rank_of(position) is not None

    def cancel(self, job: int, *, running: bool = True) -> bool | None:
        """Cancel a job; without `running`, only if no worker runs it.

        Returns
        -------
        bool or None
            True if it has no other result, None if that depends on which comes first.
        """
        with self._lock:  # to the end: another task gets the position if this one cannot be put
            position = self._positions.get(job)
            if position is None:
                return None
            if position == _CANCELLED:
                return True
            message = _Cancelled(job, position)
            if position == _NOT_PUT:
                self._positions[job] = _CANCELLED
                self._results.put(message)
                return True
            words = self._workers.running
            words.cancel(position)
            rank = words.rank_of(position)
            if rank is not None:
                return running and self._workers.stop(rank, position, lambda _: message)
            if words.is_finished(position):
                return False
            self._results.put(message)
            # A worker that has taken it sees that it is cancelled before it begins, or has put its result.
            return True if position >= self._tasks._taken_count() else None

    def put(self, task: Any) -> None:
        """Put a task of the standard library's pool into the queue; None: the end of a worker."""
        if task is None:
            return self._tasks.put(None)
        self._room.wait(least=2 * self._workers.count())
        job, part, function, arguments, keywords = task
        is_batch = function is _pool.mapstar or function is _pool.starmapstar
        called = arguments[0][0] if is_batch else function
        calls = len(arguments[0][1]) if is_batch else 1
        options, raised = NO_OPTIONS, None
        if type(called) is WithOptions:
            called, options = called
            if is_batch:
                arguments = ((called, *arguments[0][1:]),)
            else:
                function = called
        if function is _pool._helper_reraises_exception:
            # It stays here, but comes after the results of the tasks before it.
            raised, function, arguments, called = arguments[0], bool, (), bool
        call = function, arguments, keywords
        kept = call if options.retries else None
        self._put(_Open(job, part, name_of(called), options, calls, raised, kept), call)
        return None

    def _put(self, task: _Open, call: tuple[Any, Any, Any]) -> None:
        with self._put_lock:
            position = self._tasks._put_count() + self._unsent
            if task.job in self._positions:
                with self._lock:
                    if self._positions[task.job] == _CANCELLED:
                        del self._positions[task.job]
                        return None
                    self._positions[task.job] = position
            self._open[position] = task
            if self._workers.last_failed is not None:
                self._unsent += 1
                return self._results.put(NONE_STARTS)
            options, limits = task.options, 0
            try:
                self._room.position = position
                if options.has_limit:
                    self._limits.add(position, options)
                    limits = TIMED if options.max_bytes is None else MEASURED
                self._tasks.put((position, *call, limits))
            except BaseException as error:
                self._room.take_back(position)
                self._limits.remove(position)
                with self._lock:
                    self._positions.pop(task.job, None)
                    self._workers.running.forget(position)
                if self._open.pop(position, None) is None:
                    return None
                if isinstance(error, Exception):
                    raise
                raise pickle.PicklingError(f"a task cannot be pickled: {describe(error)}") from error

    def _put_again(self, position: int) -> bool:
        """Put the task of a worker that was killed once more; return False if it has no retry left."""
        task = self._open.get(position)
        if task is None or task.call is None or task.options.retries == 0:
            return False
        self._remove(position)
        options = task.options._replace(retries=task.options.retries - 1)
        try:
            self._put(task._replace(options=options), task.call)
        except Exception:  # as memory may be short: it fails with the loss of its worker
            self._open[position] = task
            return False
        return True

    def next_result(self) -> Any:
        """Wait for a result; return it with its job and index, or None at the end.

        After the end, None for each message without a result, as from a worker that could not start: when all
        tasks have theirs, the standard library reads what is there, and must not wait for more.
        """
        while not self._outcomes:
            try:
                message = self._results.get()
            except BaseException as error:  # whatever the value of an answer raises: this thread goes on
                if self._results.closed:
                    raise
                self._fail_unreadable(error)
            else:
                if message is None:
                    self._has_ended = True
                    self._repeated.clear()
                else:
                    self._take(message)
                del message
            if self._has_ended and not self._outcomes:
                return None
        return self._outcomes.popleft()

    def _take(self, message: Any) -> None:
        if type(message) is tuple:  # a plain value
            position, value = message
            self._end(position, lambda _: (True, value))
        elif isinstance(message, Answer):
            self._end(message.position, lambda _: (message.trace is None, message.value))
        elif isinstance(message, Unreadable):
            self._fail(message.position, lambda name: self._unreadable_task(name, message))
        elif isinstance(message, Stopped):
            self._fail(message.position, lambda name: message.error(name, message.pid, message.most))
        elif isinstance(message, _Cancelled):
            position = self._positions.get(message.job, _CANCELLED)
            if position == _CANCELLED:  # ignored if the job has a result
                self._outcomes.append((message.job, 0, (False, CancelledError())))
            else:
                if position != message.position:  # its worker was killed meanwhile, and it was put again
                    self.cancel(message.job)
                self._fail(position, lambda _: CancelledError())
        elif isinstance(message, StartFailure):
            self._start_failure = message
        elif message == NONE_STARTS:
            self._fail_all(self._no_worker)
        else:
            worker = self._workers.ended.pop(message)
            if not self._put_again(message):
                self._fail(message, lambda name: self.lost(name, worker.pid, worker.exitcode))

    def _remove(self, position: int) -> _Open | None:
        self._room.remove(position)
        self._limits.remove(position)
        return self._open.pop(position, None)

    def _end(self, position: int, outcome: Callable[[str], tuple[bool, Any]]) -> None:
        task = self._remove(position)
        if task is None:
            return
        self._positions.pop(task.job, None)
        result = outcome(task.name) if task.raised is None else (False, task.raised)
        self._outcomes.append((task.job, task.part, result))
        if task.options.progress is not None:
            task.options.progress.add(task.calls)

    def _fail(self, position: int, error: Callable[[str], BaseException]) -> None:
        self._end(position, lambda name: (False, error(name)))

    def _fail_all(self, error: Callable[[str], BaseException]) -> None:
        for position in list(self._open):
            self._fail(position, error)

    def _fail_unreadable(self, error: BaseException) -> None:
        """Fail the task whose answer cannot be unpickled; all, if the message itself cannot be received."""
        position, trace = last_loaded()
        if position in self._open:
            what = "result" if trace is None else "exception"
            self._fail(position, lambda name: _unpickling_error(f"the {what} of {name}", error, trace))
        else:
            self._fail_all(lambda name: _unpickling_error(f"a message, perhaps the result of {name},", error))
            time.sleep(_PAUSE)

    def _unreadable_task(self, name: str, message: Unreadable) -> BaseException:
        text = f"the task of {name} cannot be unpickled in its worker: {message.cause}"
        if self._method != "server" and ("__main__" in message.cause or "__mp_main__" in message.cause):
            text += f"; {advice_on_main(self._method)}"
        return _caused_by(pickle.UnpicklingError(text), message.trace)

    def _no_worker(self, name: str) -> BaseException:
        worker, failure = self._workers.last_failed, self._start_failure
        assert worker is not None
        last = f"the last one, process {worker.pid}, {end_of(worker.exitcode)}"
        reason = f"several workers ended one after the other before they could take a task ({last})"
        if self._workers.start_error is not None:
            reason = f"no other one could be started: {describe(self._workers.start_error)}; {last}"
        elif failure is not None:
            reason += f": the initializer raised {failure.cause}"
        elif worker.exitcode == 1 and self._method in {"spawn", "forkserver"}:
            reason += f": see their standard error; {advice_on_main(self._method)}"
        error = self.lost(name, worker.pid, worker.exitcode, reason)
        return error if failure is None else _caused_by(error, failure.trace)


def _unpickling_error(what: str, cause: BaseException, trace: str | None = None) -> BaseException:
    # As text: the frames of the traceback have tensors of the message.
    text = trace or _pool.ExceptionWithTraceback(cause, cause.__traceback__).tb
    return _caused_by(pickle.UnpicklingError(f"{what} cannot be unpickled: {describe(cause)}"), text)


def _caused_by(error: BaseException, trace: str) -> BaseException:
    error.__cause__ = _pool.RemoteTraceback(trace)
    return error
