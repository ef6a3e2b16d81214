"""The exceptions that `spawn` raises when a worker fails."""

from __future__ import annotations

import sys
from multiprocessing import ProcessError
from typing import Any

from shmtensor.errors import ShmTensorError

__all__ = ["ProcessException", "ProcessExitedException", "ProcessRaisedException"]


def __dir__() -> list[str]:
    return __all__


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
