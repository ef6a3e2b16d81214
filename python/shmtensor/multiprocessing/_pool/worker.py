"""What a worker of a pool runs, and the messages that it sends.

A worker answers each task that it takes, also one that it cannot unpickle, or whose result it cannot pickle.
"""

from __future__ import annotations

import threading
from itertools import count
from multiprocessing import pool
from typing import TYPE_CHECKING, Any, NamedTuple

from shmtensor.errors import OutOfSharedMemory
from shmtensor.multiprocessing._pool.naming import describe
from shmtensor.multiprocessing._pool.running import Running

if TYPE_CHECKING:
    from collections.abc import Callable

    from shmtensor.multiprocessing.queues import SimpleQueue
    from shmtensor.storage import Storage

INITIALIZING, READY = 1, 2
caught: type[BaseException] = Exception
"""What a task may raise without ending the worker."""
_PLAIN = frozenset({type(None), bool, int, float, str, bytes})

_pool: Any = pool  # whose classes for errors are not in its stub


class Answer:
    """The result or the exception of a task.

    Parameters
    ----------
    position
        The position of the task in its queue.
    trace
        The traceback as text if the value is an exception of the task.
    value
        What the task returned or raised.
    """

    def __init__(self, position: int, trace: str | None, value: Any = None) -> None:
        self.position = position
        self.trace = trace
        self.value = value

    def __reduce__(self) -> Any:
        # The value is the state, which is loaded last: if that fails, the reader knows the task.
        return _load, (self.position, self.trace), (self.value,)

    def __setstate__(self, state: tuple[Any]) -> None:
        (self.value,) = state
        if self.trace is not None:
            self.value.__cause__ = _pool.RemoteTraceback(self.trace)


class Unreadable(NamedTuple):
    """A task that the worker could not unpickle."""

    position: int
    cause: str
    trace: str


class StartFailure(NamedTuple):
    """An initializer that raised."""

    cause: str
    trace: str


class _Last(threading.local):
    answer: tuple[int, str | None] = -1, None


_last = _Last()


def _load(position: int, trace: str | None) -> Answer:
    _last.answer = position, trace
    return Answer(position, trace)


def last_loaded() -> tuple[int, str | None]:
    """Return position and trace of the last answer of which this thread has begun to load the value."""
    return _last.answer


def work(  # noqa: PLR0917
    block: Storage,
    rank: int,
    tasks: SimpleQueue[Any],
    answers: SimpleQueue[Any],
    initializer: Callable[..., object] | None,
    initargs: tuple[Any, ...],
    most: int | None,
) -> None:
    """Run tasks until there is none. The process of the pool reads the words: see `Workers`."""
    global caught
    caught = Exception  # the process that forked this one may be a worker of an executor
    running = Running(block)
    if initializer is not None:
        running.set_progress(rank, INITIALIZING)
        try:
            initializer(*initargs)
        except BaseException as error:
            answers.put(StartFailure(describe(error), _trace(error)))
            raise
    running.set_progress(rank, READY)
    tasks._claim_in(block, rank)
    last = -1
    for done in count():
        if done == most:
            return
        try:
            task = tasks.get()
        except Exception as error:
            position = running.claimed_by(rank) - 1
            if position == last:
                raise  # no task was taken
            answers.put(Unreadable(position, describe(error), _trace(error)))
            last = position
            continue
        if task is None:
            return
        last, function, arguments, keywords, limits = task
        answer = None
        if running.begin(rank, last, limits):
            answer = _run(last, function, arguments, keywords)
        running.finish(rank, last)
        if answer is not None:
            _send(answers, answer)
        del task, function, arguments, keywords, answer


def _run(position: int, function: Any, arguments: Any, keywords: Any) -> Answer:
    try:
        return Answer(position, None, function(*arguments, **keywords))
    except caught as error:
        return Answer(position, _trace(error), error)


def _send(answers: SimpleQueue[Any], answer: Answer) -> None:
    try:
        # What can always be loaded is sent as a tuple, which needs no code of Python on either side.
        answers.put((answer.position, answer.value) if _is_plain(answer.value) else answer)
    except Exception as error:
        reason = error if isinstance(error, OutOfSharedMemory) else _encoding_error(error, answer.value)
        answers.put(Answer(answer.position, answer.trace or _trace(error), reason))


def _is_plain(value: Any) -> bool:
    return type(value) in _PLAIN or (type(value) is list and _PLAIN.issuperset(map(type, value)))


def _encoding_error(error: Exception, value: Any) -> Exception:
    made: Exception
    try:
        made = _pool.MaybeEncodingError(error, value)
    except Exception:  # of a `repr`
        made = _pool.MaybeEncodingError(describe(error), type(value))
    return made


def _trace(error: BaseException) -> str:
    trace: str = _pool.ExceptionWithTraceback(error, error.__traceback__).tb
    return trace
