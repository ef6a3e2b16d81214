"""The exceptions for workers that fail: of `spawn`, and of a pool."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from multiprocessing import ProcessError
from typing import Any

from shmtensor.errors import ShmTensorError

__all__ = [
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "TaskMemory",
    "TaskTimeout",
    "WorkerLost",
]
__dir__ = __all__.copy


class ProcessException(ShmTensorError, ProcessError):  # noqa: N818  # torch's name
    """A worker failed. Failures of other workers are attached as notes, ``__notes__``.

    Parameters
    ----------
    msg
        What happened.
    error_index
        The rank of the worker.
    pid
        Its process id.
    """

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = pid

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._arguments(), self.__dict__

    def _arguments(self) -> tuple[Any, ...]:
        return self.msg, self.error_index, self.error_pid

    if sys.version_info < (3, 11):

        def add_note(self, note: str, /) -> None:
            """Add a line that is printed after the message, as Python 3.11 does."""
            self.__dict__.setdefault("__notes__", []).append(note)

        def __str__(self) -> str:
            return "\n".join([super().__str__(), *self.__dict__.get("__notes__", [])])


class ProcessRaisedException(ProcessException):
    """A worker raised an exception.

    The text contains its traceback; the exception itself is the ``__cause__`` if it could be pickled.
    """

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg, error_index, error_pid)


class ProcessExitedException(ProcessException):
    """A worker ended before its function returned: by `sys.exit`, `os._exit`, or a signal.

    Parameters
    ----------
    msg, error_index, error_pid
        As for `ProcessException`.
    exit_code
        Its exit code, or the negative number of the signal that ended it.
    signal_name
        The name of that signal, such as ``"SIGKILL"``; None if there was none.
    """

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def _arguments(self) -> tuple[Any, ...]:
        return *super()._arguments(), self.exit_code, self.signal_name


class WorkerLost(ShmTensorError, ProcessError):  # noqa: N818  # named as `ProducerGone`
    """A worker of a pool ended before it had sent the result of its task.

    Parameters
    ----------
    task
        Name of the task's function.
    pid
        Process id of the worker.
    exitcode
        Its exit status, or the negative number of the signal that ended it.
    reason
        Why the pool has no worker for the task; None if the worker had the task, and the pool continues.
    """

    def __init__(self, task: str, pid: int | None, exitcode: int | None, reason: str | None = None) -> None:
        super().__init__(task, pid, exitcode, reason)
        self.task = task
        self.pid = pid
        self.exitcode = exitcode
        self.reason = reason

    def __str__(self) -> str:
        if self.reason is not None:
            return f"no worker can run {self.task}: {self.reason}"
        return (
            f"the result of {self.task} is lost: its worker, process {self.pid}, {end_of(self.exitcode)}; "
            "the pool continues with a new worker"
        )


class TaskTimeout(ShmTensorError, ProcessError):  # noqa: N818  # named as `WorkerLost`
    """A task of a pool ran longer than its limit; its worker was killed.

    Parameters
    ----------
    task
        Name of the task's function.
    pid
        Process id of the worker.
    timeout
        The limit in seconds.
    """

    def __init__(self, task: str, pid: int, timeout: float) -> None:
        super().__init__(task, pid, timeout)
        self.task = task
        self.pid = pid
        self.timeout = timeout

    def __str__(self) -> str:
        return f"{self.task} ran longer than {self.timeout:g} s; {_replaced(self.pid)}"


class TaskMemory(ShmTensorError, ProcessError):  # noqa: N818
    """A task of a pool took more memory than its limit; its worker was killed.

    Parameters
    ----------
    task
        Name of the task's function.
    pid
        Process id of the worker.
    max_bytes
        The limit.
    """

    def __init__(self, task: str, pid: int, max_bytes: int) -> None:
        super().__init__(task, pid, max_bytes)
        self.task = task
        self.pid = pid
        self.max_bytes = max_bytes

    def __str__(self) -> str:
        return f"{self.task} took more than {self.max_bytes:,} bytes of memory; {_replaced(self.pid)}"


def _replaced(pid: int) -> str:
    return f"its worker, process {pid}, was killed, and the pool continues with a new one"


def end_of(exitcode: int | None) -> str:
    """Return how a process ended, as a predicate."""
    name = None if exitcode is None else signal_name(exitcode)
    return f"was killed by {name}" if name else f"ended with exit status {exitcode}"


def signal_name(exitcode: int) -> str | None:
    """Return the name of the signal that ended a process, None if it exited."""
    if exitcode >= 0:
        return None
    with suppress(ValueError):
        return signal.Signals(-exitcode).name
    return f"signal {-exitcode}"
