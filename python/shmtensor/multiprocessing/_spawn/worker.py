"""What a worker of `spawn` runs: its target, and the function and arguments that the target calls."""

from __future__ import annotations

import os
import pickle
import sys
from multiprocessing import reduction
from typing import TYPE_CHECKING, Any

from shmtensor._pickling import dumps

if TYPE_CHECKING:
    from collections.abc import Callable

    from shmtensor.multiprocessing._spawn.settings import Settings

_INTERRUPTED = 130  # what shells report for a program that SIGINT ended
# A pipe takes 64 KiB before its writer has to wait for the reader, here for an interpreter to start.
_SMALL = 32 * 1024


class Call:
    """A function and its arguments. Forked workers inherit them, others unpickle them.

    They are pickled apart from the Process object, so that an error while the worker unpickles them is
    reported like an exception of the function. Large ones are sent in a file in memory, so that workers start
    in parallel.
    """

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._function = function
        self._args = args
        self._file = -1

    def get(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return the function and its arguments, in the worker."""
        return self._function, self._args

    def __reduce__(self) -> Any:
        content = dumps((self._function, self._args))
        if len(content) <= _SMALL:
            return _Pickled, (content,)
        self._file = os.memfd_create("shmtensor-call", os.MFD_CLOEXEC)
        with open(self._file, "wb", closefd=False) as file:
            file.write(content)
        return _PickledFile, (reduction.DupFd(self._file),)

    def close(self) -> None:
        """Close the file, after the start of the process succeeded or failed."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class _Pickled:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def get(self) -> Any:
        return pickle.loads(self._content)


class _PickledFile:
    def __init__(self, duplicate: Any) -> None:
        self._file = duplicate.detach()

    def get(self) -> Any:
        with os.fdopen(self._file, "rb") as file:
            file.seek(0)
            return pickle.load(file)


class Target:
    """The target of a worker's Process object."""

    def __init__(self, rank: int, call: Call, report: Any, settings: Settings) -> None:
        self.rank = rank
        self.call = call
        self.report = report
        self.settings = settings

    def __call__(self) -> None:
        report = self.report.sender() if hasattr(self.report, "sender") else self.report
        try:
            self.settings.apply()
            function, args = self.call.get()
            value = function(self.rank, *args)
        except SystemExit as error:
            report.exited(error.code)
            raise
        except BaseException as error:
            _remove_own_frame(error)
            if report.raised(error) or isinstance(error, KeyboardInterrupt):
                sys.exit(_INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1)
            raise  # the parent closed the pipe: the traceback goes to standard error
        report.returned(value)


def _remove_own_frame(error: BaseException) -> None:
    first = error.__traceback__
    if first is not None and first.tb_next is not None:
        error.__traceback__ = first.tb_next
