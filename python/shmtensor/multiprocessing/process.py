"""The standard library's process classes, with a session and settings that the child inherits.

If a start fails, the tensors among its arguments are released.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.context as std
import multiprocessing.process
import os
import sys
from contextlib import suppress

from shmtensor._fork import after_fork_in_child
from shmtensor.multiprocessing._default_method import set_default

# Each worker imports this module before it runs. What only its parent needs is imported later, and so is the
# extension, which the worker may not need; `typing` never.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import shmtensor._core as _core
    from shmtensor.multiprocessing._lifetime.parent_death import ParentDeathPipe

__all__ = ["ForkProcess", "ForkServerProcess", "Process", "ServerProcess", "SpawnProcess"]
__dir__ = __all__.copy

_EXECUTOR = "concurrent.futures.process"  # no other process would end its workers, which wait for tasks
_process: Any = multiprocessing.process
_DEFAULTS = "file_descriptor", 64 * 1024  # the settings of a new process
_KILL_TIMEOUT = 5.0  # in seconds: a process that is blocked in the kernel does not end by SIGKILL


def __getattr__(name: str) -> Any:
    return getattr(multiprocessing.process, name)  # everything that is not replaced here


@after_fork_in_child
def _forget_processes() -> None:
    """Forget the parent's processes, which a child of `os.fork` would terminate when it exits."""
    _process._children.clear()


class _Inherited:
    """The parent's session and settings, carried by the Process object."""

    __slots__ = ("buffer_threshold", "joins", "session", "strategy")

    def __init__(self, session: str, strategy: str, buffer_threshold: int | None, joins: bool) -> None:
        self.session = session
        self.strategy = strategy
        self.buffer_threshold = buffer_threshold
        self.joins = joins

    def __reduce__(self) -> Any:
        return _Inherited, (self.session, self.strategy, self.buffer_threshold, self.joins)

    @classmethod
    def from_this_process(cls, *, outlived: bool) -> _Inherited:
        """Collect them. If there is no session yet, this chooses its id without starting it.

        A child that may outlive this process joins a session that has been started, which would otherwise
        end with this process.
        """
        import shmtensor._core as _core
        from shmtensor import _threshold

        joins = outlived and _core.has_home()
        return cls(_core.home_id(), _core.default_strategy(), _threshold.buffer_threshold(), joins)

    def apply(self) -> None:
        """Take them over, in the child."""
        settings = self.strategy, self.buffer_threshold
        if (
            "shmtensor._core" in sys.modules
            or self.joins
            or settings != _DEFAULTS
            or "SHMTENSOR_SHARING_STRATEGY" in os.environ
        ):
            self._apply_to_extension()
        else:  # the extension reads it when it is first imported, if it ever is
            os.environ["SHMTENSOR_SESSION"] = self.session

    def _apply_to_extension(self) -> None:
        import shmtensor._core as _core
        from shmtensor import _threshold

        _core.set_home_id(self.session)
        _core.set_default_strategy(self.strategy)
        _threshold.set_buffer_threshold(self.buffer_threshold)
        if self.joins:
            from shmtensor.errors import ShmTensorError

            with suppress(ShmTensorError, OSError, MemoryError):  # the child may never use shared memory
                _core.home_proof()


class _SharingProcess(multiprocessing.process.BaseProcess):
    _inherited: _Inherited | None = None
    _parent_death: ParentDeathPipe | None = None
    _message: _core.SendScope | None = None
    _signal_mask: set[int] | None = None  # of the parent, in a forked child

    def start(self) -> None:
        """Start the child. Tensors among the arguments are sent as handles.

        If this raises, because the arguments cannot be pickled, the child cannot be started, or a signal
        handler raises, all of them are released, and a child that was started is killed.
        """
        import shmtensor._core as _core

        _check_startable(self)
        if self._parent_death is None:
            from shmtensor.multiprocessing._lifetime.parent_death import ParentDeathPipe, pipe_for_child

            target: Any = self._target  # type: ignore[attr-defined]
            of_executor = getattr(target, "__module__", "") == _EXECUTOR
            # A daemonic parent is terminated at any time, and could not end its children then.
            needed = self.daemon or of_executor or _process.current_process().daemon
            self._parent_death = ParentDeathPipe() if needed else pipe_for_child()
        self._inherited = _Inherited.from_this_process(outlived=self._parent_death is None)
        with _core.SendScope(arguments=True) as message:
            try:
                _start(self)
                # Kept as long as this object, which `multiprocessing` keeps until the child has ended:
                # deleting it cancels what the child did not load, as does the end of this process.
                self._message = message
                if self._parent_death is not None:
                    assert self.pid is not None
                    self._parent_death.started(self.pid)
            except BaseException:
                self._undo_start()  # before the scope cancels the message, which the child may be reading
                raise

    def join(self, timeout: float | None = None) -> None:
        """Wait until the process ends; see `multiprocessing.Process.join`. Releases what it did not load."""
        super().join(timeout)
        if self._message is not None and self.exitcode is not None:
            self._message.discard()

    def _undo_start(self) -> None:
        if self._popen is not None:  # type: ignore[attr-defined]
            self.kill()
            self.join(_KILL_TIMEOUT)
        if self._parent_death is not None:
            self._parent_death.close()

    def _bootstrap(self, *args: Any, **kwargs: Any) -> int:
        if self._parent_death is not None:
            self._parent_death.arm()
        if self._inherited is not None:
            self._inherited.apply()
        method: str | None = getattr(self, "_start_method", None)
        if method is not None:  # the child's default is the method by which it was started
            set_default(method)
        if self._signal_mask is not None:
            from shmtensor.multiprocessing._lifetime.signals import begin_child

            begin_child(self._signal_mask)
        return super()._bootstrap(*args, **kwargs)  # type: ignore[misc, no-any-return]


# The standard library's `start`, without its check that this process is not daemonic: children of daemonic
# processes end with them here.


def _check_startable(process: Any) -> None:
    process._check_closed()
    assert process._popen is None, "cannot start a process twice"
    assert process._parent_pid == os.getpid(), "can only start a process object created by current process"


def _start(process: Any) -> None:
    _process._cleanup()
    process._popen = process._Popen(process)
    process._sentinel = process._popen.sentinel
    del process._target, process._args, process._kwargs
    _process._children.add(process)


class Process(_SharingProcess, multiprocessing.Process):
    """A process started by the default start method."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802  # the standard library's name
        from shmtensor.multiprocessing import start_method

        return _CLASSES[start_method.resolve_or_default()]._Popen(process_obj)  # type: ignore[attr-defined]


class ForkProcess(_SharingProcess, std.ForkProcess):
    """A process started by fork."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802  # the standard library's name
        from shmtensor.multiprocessing._lifetime.fork import Popen

        return Popen(process_obj)


class SpawnProcess(_SharingProcess, std.SpawnProcess):
    """A process started by spawn."""


class ForkServerProcess(_SharingProcess, std.ForkServerProcess):
    """A process started by the fork server."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802  # the standard library's name
        _preload_in_fork_server()
        try:
            return std.ForkServerProcess._Popen(process_obj)
        except (EOFError, ConnectionResetError, BrokenPipeError) as error:
            msg = (
                f"the fork server ended while it started {process_obj.name}; see its standard error. "
                "Since Python 3.13.8 it imports the main module, so keep what must run only once below "
                "`if __name__ == '__main__':`; the start method 'server' does not import it"
            )
            raise ChildProcessError(msg) from error


_PRELOADED = (
    "shmtensor.multiprocessing.process",
    *("shmtensor.multiprocessing.connection", "shmtensor.multiprocessing.queues"),
    *("shmtensor.multiprocessing.pool", "shmtensor._array_reducers", "shmtensor.creation"),
    *("concurrent.futures.process", "numpy", "numpy.random"),
)
_PRELOADED_ALWAYS = "multiprocessing.popen_forkserver", "pkgutil"  # by which `runpy` finds the main module


def _preload_in_fork_server() -> None:
    """Have the fork server import what this process has imported, so that not each worker does.

    A server that runs keeps what it has.
    """
    from multiprocessing import forkserver

    server: Any = forkserver._forkserver
    names = [*_PRELOADED_ALWAYS, *(name for name in _PRELOADED if name in sys.modules)]
    new = [name for name in names if name not in server._preload_modules]
    if new:
        server._preload_modules = [*server._preload_modules, *new]


class ServerProcess(_SharingProcess):
    """A process started by the worker server."""

    _start_method = None  # the standard library does not know this method

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802  # the standard library's name
        from shmtensor.multiprocessing._worker_server.popen import Popen

        return Popen(process_obj)


_CLASSES: dict[str, type[_SharingProcess]] = {
    "fork": ForkProcess,
    "spawn": SpawnProcess,
    "forkserver": ForkServerProcess,
    "server": ServerProcess,
}
