"""Contexts: the standard library's, with our processes, queues and pipes."""

from __future__ import annotations

import multiprocessing
import multiprocessing.context as std
from typing import Any

from shmtensor.multiprocessing import _process
from shmtensor.multiprocessing import connection as _connection
from shmtensor.multiprocessing import queues as _queues

__all__ = ["DefaultContext", "ForkContext", "ForkServerContext", "SpawnContext"]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    return getattr(std, name)  # what is not different here


class _Sharing(std.BaseContext):
    """What every context of ours does differently."""

    def Pipe(self, duplex: bool = True) -> tuple[_connection.Connection, _connection.Connection]:
        """Return two connected ends; tensors sent through them travel as handles."""
        return _connection.Pipe(duplex)

    def Queue(self, maxsize: int = 0) -> _queues.Queue:
        """Return a queue with a feeder thread; `put` pickles at once, tensors travel as handles."""
        return _queues.Queue(maxsize, ctx=self.get_context())

    def JoinableQueue(self, maxsize: int = 0) -> _queues.JoinableQueue:
        """Return a `Queue` with `task_done` and `join`."""
        return _queues.JoinableQueue(maxsize, ctx=self.get_context())

    def SimpleQueue(self) -> _queues.SimpleQueue:
        """Return a queue that is little more than a pipe with locks; tensors travel as handles."""
        return _queues.SimpleQueue(ctx=self.get_context())

    def get_context(self, method: str | None = None) -> Any:
        """Return the context of a start method; None: this one, or the default method's."""
        if method is None:
            return self
        return for_method(method)


class ForkContext(_Sharing, std.ForkContext):
    """Children are forked."""

    Process = _process.ForkProcess


class SpawnContext(_Sharing, std.SpawnContext):
    """Children are new interpreters."""

    Process = _process.SpawnProcess


class ForkServerContext(_Sharing, std.ForkServerContext):
    """Children are forked from a server process."""

    Process = _process.ForkServerProcess


class DefaultContext(_Sharing):
    """The standard library's default: `set_start_method` here and there is the same thing."""

    Process = _process.Process

    def get_context(self, method: str | None = None) -> Any:
        """Return the context of a start method; None: of the default method, which is fixed by this."""
        return for_method(multiprocessing.get_context(method).get_start_method())

    def set_start_method(self, method: str | None, force: bool = False) -> None:
        """Set the default start method; see `multiprocessing.set_start_method`."""
        multiprocessing.set_start_method(method, force)

    def get_start_method(self, allow_none: bool = False) -> Any:
        """Return the default start method; see `multiprocessing.get_start_method`."""
        return multiprocessing.get_start_method(allow_none)

    def get_all_start_methods(self) -> list[str]:
        """Return the start methods of this platform, the default first."""
        return multiprocessing.get_all_start_methods()


_contexts: dict[str, std.BaseContext] = {
    "fork": ForkContext(),
    "spawn": SpawnContext(),
    "forkserver": ForkServerContext(),
}


def for_method(method: str) -> Any:
    """Return the context of a start method."""
    try:
        context = _contexts[method]
    except KeyError:
        msg = f"cannot find context for {method!r}"
        raise ValueError(msg) from None
    context._check_available()
    return context
