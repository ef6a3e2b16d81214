"""Contexts: the standard library's, with our processes, queues and pipes."""

from __future__ import annotations

import multiprocessing
import multiprocessing.context as std
import os
from typing import Any, TypeVar

import shmtensor._core as _core
from shmtensor.multiprocessing import _process
from shmtensor.multiprocessing import connection as _connection
from shmtensor.multiprocessing import queues as _queues
from shmtensor.multiprocessing import start_method as _start_method

__all__ = ["DefaultContext", "ForkContext", "ForkServerContext", "ServerContext", "SpawnContext"]


_Channel = TypeVar("_Channel")


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    return getattr(std, name)  # what is not different here


class _Sharing(std.BaseContext):
    """What every context of ours does differently."""

    def Pipe(self, duplex: bool = True) -> tuple[_connection.Connection, _connection.Connection]:
        """Return two connected ends; tensors sent through them travel as handles."""
        first, second = _connection.Pipe(duplex)
        return self._for_workers(first), self._for_workers(second)

    def Queue(self, maxsize: int = 0) -> _queues.Queue:
        """Return a queue with a feeder thread; `put` pickles at once, tensors travel as handles."""
        context: _Sharing = self.get_context()
        return context._for_workers(_queues.Queue(maxsize, ctx=context))

    def JoinableQueue(self, maxsize: int = 0) -> _queues.JoinableQueue:
        """Return a `Queue` with `task_done` and `join`."""
        context: _Sharing = self.get_context()
        return context._for_workers(_queues.JoinableQueue(maxsize, ctx=context))

    def SimpleQueue(self) -> _queues.SimpleQueue:
        """Return a queue that is little more than a pipe with locks; tensors travel as handles."""
        context: _Sharing = self.get_context()
        return context._for_workers(_queues.SimpleQueue(ctx=context))

    def Pool(
        self,
        processes: int | None = None,
        initializer: Any = None,
        initargs: Any = (),
        maxtasksperchild: int | None = None,
    ) -> Any:
        """Return a pool of workers; tensors that are sent to them and back travel as handles."""
        pool: Any = super().Pool(processes, initializer, initargs, maxtasksperchild)
        if pool._ctx.get_start_method() != "server":
            from shmtensor.multiprocessing._by_value import ByName

            pool._inqueue.pickler = ByName
        return pool

    def _for_workers(self, channel: _Channel) -> _Channel:
        """Return the channel, set up for what this context's workers can read."""
        return channel

    def get_context(self, method: str | None = None) -> Any:
        """Return the context of a start method; None: this one, or the default method's."""
        if method is None:
            return self
        return default_context.get_context(method)


class ForkContext(_Sharing, std.ForkContext):
    """Children are forked."""

    Process = _process.ForkProcess


class SpawnContext(_Sharing, std.SpawnContext):
    """Children are new interpreters."""

    Process = _process.SpawnProcess


class ForkServerContext(_Sharing, std.ForkServerContext):
    """Children are forked from a server process."""

    Process = _process.ForkServerProcess


class ServerContext(_Sharing):
    """Children are forked from the worker server, which never imports the main module."""

    _name = "server"
    Process = _process.ServerProcess

    def set_start_method(self, method: str | None, force: bool = False) -> None:  # noqa: ARG002
        """Raise: this context has its start method."""
        msg = "cannot set start method of concrete context"
        raise ValueError(msg)

    def _for_workers(self, channel: _Channel) -> _Channel:
        from shmtensor.multiprocessing._by_value import ByValue

        channel.pickler = ByValue  # type: ignore[attr-defined]
        return channel

    def _check_available(self) -> None:
        for there, what in (
            (_core.has_pidfd(), "pidfds: Linux 5.3, and pidfd_open allowed by the seccomp profile"),
            (os.path.exists("/proc/self/status"), "/proc, which is not mounted here"),  # noqa: PTH110
        ):
            if not there:
                msg = f"the start method 'server' needs {what}; choose spawn or forkserver"
                raise ValueError(msg)


class DefaultContext(_Sharing):
    """The default start method: the standard library's, or what only this package knows.

    Setting one that the standard library has sets it there too.
    """

    Process = _process.Process
    _own: str | None = None

    def get_context(self, method: str | None = None) -> Any:
        """Return the context of a start method; None: of the default method, which is fixed by this.

        ``"auto"`` chooses by what can be seen of this process: see `explain_start_method`. The environment
        variable ``SHMTENSOR_START_METHOD`` decides for ``"auto"``, and for None.
        """
        chosen = _start_method.resolve(self._own if method is None else method)
        return for_method(chosen or multiprocessing.get_context(None).get_start_method())

    def _for_workers(self, channel: _Channel) -> _Channel:
        method = self.get_start_method(allow_none=True)  # a pipe does not fix it
        return _contexts[method]._for_workers(channel) if method else channel

    def set_start_method(self, method: str | None, force: bool = False) -> None:
        """Set the default start method; see `multiprocessing.set_start_method`."""
        own = method in {"server", "auto"}
        there = self._own or (own and multiprocessing.get_start_method(allow_none=True))
        if there and not force:
            msg = "context has already been set"
            raise RuntimeError(msg)
        if not own:
            multiprocessing.set_start_method(method, force)
        self._own = method if own else None

    def follow(self, method: str) -> None:
        """Have the method by which this process was started, as the standard library has."""
        self._own = method if method == "server" else None

    def get_start_method(self, allow_none: bool = False) -> Any:
        """Return the default start method; see `multiprocessing.get_start_method`."""
        return _start_method.resolve(self._own) or multiprocessing.get_start_method(allow_none)

    def get_all_start_methods(self) -> list[str]:
        """Return the start methods of this platform, the default first."""
        return [*multiprocessing.get_all_start_methods(), "server"]


_contexts: dict[str, _Sharing] = {
    "fork": ForkContext(),
    "spawn": SpawnContext(),
    "forkserver": ForkServerContext(),
    "server": ServerContext(),
}
default_context = DefaultContext()


def default_process() -> Any:
    """Return the Process class of the default start method."""
    return default_context.get_context().Process


def for_method(method: str) -> Any:
    """Return the context of a start method."""
    context = _contexts[method]
    context._check_available()
    return context
