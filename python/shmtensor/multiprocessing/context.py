"""The standard library's contexts, with the processes, queues and pipes of this package."""

from __future__ import annotations

import multiprocessing.context as std
import multiprocessing.process
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from shmtensor.multiprocessing import process as _process
from shmtensor.multiprocessing import start_method as _start_method
from shmtensor.multiprocessing._default_method import get_default, set_default

if TYPE_CHECKING:  # late, since few processes make more than one kind of these
    from shmtensor.multiprocessing import connection as _connection
    from shmtensor.multiprocessing import pool as _pool
    from shmtensor.multiprocessing import queues as _queues
    from shmtensor.multiprocessing import synchronize as _synchronize

__all__ = ["DefaultContext", "ForkContext", "ForkServerContext", "ServerContext", "SpawnContext"]
__dir__ = __all__.copy

_Channel = TypeVar("_Channel")


def __getattr__(name: str) -> Any:
    return getattr(std, name)  # everything that is not replaced here


class SharingContext(std.BaseContext):
    """What every context of this package does differently from the standard library's."""

    Process: ClassVar[type[multiprocessing.process.BaseProcess]]

    def Pipe(self, duplex: bool = True) -> tuple[_connection.PipeEnd, _connection.PipeEnd]:
        """Return two connected ends; tensors sent through them travel as handles."""
        from shmtensor.multiprocessing.connection import Pipe

        first, second = Pipe(duplex)
        return self._for_workers(first), self._for_workers(second)

    def Queue(self, maxsize: int = 0) -> _queues.Queue[Any]:
        """Return a queue in shared memory; `put` pickles immediately, tensors travel as handles."""
        from shmtensor.multiprocessing.queues import Queue

        return Queue(maxsize, ctx=self.get_context())

    def JoinableQueue(self, maxsize: int = 0) -> _queues.JoinableQueue[Any]:
        """Return a `Queue` with `task_done` and `join`."""
        from shmtensor.multiprocessing.queues import JoinableQueue

        return JoinableQueue(maxsize, ctx=self.get_context())

    def SimpleQueue(self, *, max_bytes: int | None = None) -> _queues.SimpleQueue[Any]:
        """Return a queue without `maxsize`; tensors travel as handles."""
        from shmtensor.multiprocessing.queues import SimpleQueue

        return SimpleQueue(max_bytes=max_bytes, ctx=self.get_context())

    def Lock(self) -> _synchronize.Lock:
        """Return a lock in shared memory, which a killed process gives back."""
        from shmtensor.multiprocessing.synchronize import Lock

        return Lock(ctx=self.get_context())

    def RLock(self) -> _synchronize.RLock:
        """Return a `Lock` that its thread can acquire again."""
        from shmtensor.multiprocessing.synchronize import RLock

        return RLock(ctx=self.get_context())

    def Semaphore(self, value: int = 1) -> _synchronize.Semaphore:
        """Return a semaphore in shared memory; a killed process gives its units back."""
        from shmtensor.multiprocessing.synchronize import Semaphore

        return Semaphore(value, ctx=self.get_context())

    def BoundedSemaphore(self, value: int = 1) -> _synchronize.BoundedSemaphore:
        """Return a `Semaphore` whose value is never above the initial one."""
        from shmtensor.multiprocessing.synchronize import BoundedSemaphore

        return BoundedSemaphore(value, ctx=self.get_context())

    def Condition(self, lock: Any = None) -> _synchronize.Condition:
        """Return a condition in shared memory; a killed process that waits delays no other."""
        from shmtensor.multiprocessing.synchronize import Condition

        return Condition(lock, ctx=self.get_context())

    def Event(self) -> _synchronize.Event:
        """Return an event in shared memory."""
        from shmtensor.multiprocessing.synchronize import Event

        return Event(ctx=self.get_context())

    def Barrier(self, parties: int, action: Any = None, timeout: float | None = None) -> _synchronize.Barrier:
        """Return a barrier in shared memory, which a killed process breaks."""
        from shmtensor.multiprocessing.synchronize import Barrier

        return Barrier(parties, action, timeout, ctx=self.get_context())

    def RawValue(self, typecode_or_type: Any, *args: Any) -> Any:
        """Return a ctypes object in shared memory."""
        from shmtensor.multiprocessing.sharedctypes import RawValue

        return RawValue(typecode_or_type, *args)

    def RawArray(self, typecode_or_type: Any, size_or_initializer: Any) -> Any:
        """Return a ctypes array in shared memory."""
        from shmtensor.multiprocessing.sharedctypes import RawArray

        return RawArray(typecode_or_type, size_or_initializer)

    def Value(self, typecode_or_type: Any, *args: Any, lock: Any = True) -> Any:
        """Return a `RawValue` with a lock."""
        from shmtensor.multiprocessing.sharedctypes import Value

        return Value(typecode_or_type, *args, lock=lock, ctx=self.get_context())

    def Array(self, typecode_or_type: Any, size_or_initializer: Any, *, lock: Any = True) -> Any:
        """Return a `RawArray` with a lock."""
        from shmtensor.multiprocessing.sharedctypes import Array

        return Array(typecode_or_type, size_or_initializer, lock=lock, ctx=self.get_context())

    def Pool(
        self,
        processes: int | None = None,
        initializer: Any = None,
        initargs: Any = (),
        maxtasksperchild: int | None = None,
    ) -> _pool.Pool:
        """Return a pool of workers; tensors in tasks and results travel as handles."""
        from shmtensor.multiprocessing.pool import Pool

        return Pool(processes, initializer, initargs, maxtasksperchild, self.get_context())

    def _for_workers(self, channel: _Channel) -> _Channel:
        """Return the channel, set up for what workers of this context can read."""
        return channel

    def get_context(self, method: str | None = None) -> SharingContext:  # type: ignore[override]
        """Return the context of a start method; None: this one, or the default method's."""
        if method is None:
            return self
        return default_context.get_context(method)


class ForkContext(SharingContext, std.ForkContext):
    """Children are forked."""

    Process = _process.ForkProcess


class SpawnContext(SharingContext, std.SpawnContext):
    """Children are new interpreters.

    In torch, this name is a deprecated alias of `ProcessContext`; this package does not have that alias.
    """

    Process = _process.SpawnProcess


class ForkServerContext(SharingContext, std.ForkServerContext):
    """Children are forked from a server process."""

    Process = _process.ForkServerProcess


class ServerContext(SharingContext):
    """Children are forked from the worker server, which never imports the main module."""

    _name = "server"
    Process = _process.ServerProcess

    def _for_workers(self, channel: _Channel) -> _Channel:
        from shmtensor.multiprocessing._by_value.reducer import dumps_by_value

        channel._dumps = dumps_by_value  # type: ignore[attr-defined]
        return channel


class DefaultContext(SharingContext):
    """The context of the default start method: the standard library's, ``"server"`` or ``"auto"``.

    Setting a method that the standard library knows sets it there too.
    """

    Process = _process.Process

    def get_context(self, method: str | None = None) -> SharingContext:  # type: ignore[override]
        """Return the context of a start method; None: of the default method, which this call fixes.

        ``"auto"`` chooses by the state of this process: see `explain_start_method`. The environment variable
        ``SHMTENSOR_START_METHOD`` decides for ``"auto"``, and for None.
        """
        return _contexts[_start_method.resolve_or_default(method)]

    def _for_workers(self, channel: _Channel) -> _Channel:
        method = self.get_start_method(allow_none=True)  # a pipe does not fix the default
        return _contexts[method]._for_workers(channel) if method else channel

    def set_start_method(self, method: str | None, force: bool = False) -> None:
        """Set the default start method; see `multiprocessing.set_start_method`."""
        is_ours = method in {"server", "auto"}
        known = get_default() or (is_ours and multiprocessing.get_start_method(allow_none=True))
        if known and not force:
            msg = "context has already been set"
            raise RuntimeError(msg)
        if not is_ours:
            multiprocessing.set_start_method(method, force)
        set_default(method)

    def get_start_method(self, allow_none: bool = False) -> Any:
        """Return the default start method; see `multiprocessing.get_start_method`."""
        return _start_method.resolve_default() or multiprocessing.get_start_method(allow_none)

    def get_all_start_methods(self) -> list[str]:
        """Return the start methods of this platform, the default first."""
        return [*multiprocessing.get_all_start_methods(), "server"]


_contexts: dict[str, SharingContext] = {
    "fork": ForkContext(),
    "spawn": SpawnContext(),
    "forkserver": ForkServerContext(),
    "server": ServerContext(),
}
default_context = DefaultContext()
