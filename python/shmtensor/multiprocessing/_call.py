"""What a worker is to call, on its way to it."""

from __future__ import annotations

import os
from multiprocessing import reduction
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Call"]

# A pipe takes 64 KiB before its writer has to wait for the reader, here for an interpreter to start.
_SMALL = 32 * 1024


class Call:
    """A function and its arguments. Forked workers have them as they are, others unpickle them.

    They are pickled apart from the Process object, so that what goes wrong in the worker when it unpickles
    them is reported like an exception of the function, and large ones go by way of a file in memory, so
    that workers start in parallel.
    """

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._function = function
        self._args = args
        self._file = -1

    def get(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return both, in the worker."""
        return self._function, self._args

    def __reduce__(self) -> Any:
        content = bytes(ForkingPickler.dumps((self._function, self._args)))
        if len(content) <= _SMALL:
            return _Pickled, (content,)
        self._file = os.memfd_create("shmtensor-call", os.MFD_CLOEXEC)
        with open(self._file, "wb", closefd=False) as file:
            file.write(content)
        return _PickledFile, (reduction.DupFd(self._file),)

    def sent(self) -> None:
        """Close what was open for the way, once the process is started or could not be."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class _Pickled:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def get(self) -> Any:
        return reduction.ForkingPickler.loads(self._content)


class _PickledFile:
    def __init__(self, duplicate: Any) -> None:
        self._file = duplicate.detach()

    def get(self) -> Any:
        with os.fdopen(self._file, "rb") as file:
            file.seek(0)
            return reduction.ForkingPickler.loads(file.read())
