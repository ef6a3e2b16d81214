"""Process classes: the standard library's, with settings that reach the child.

Arguments that are tensors are taken back if the start fails.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.context as std
from typing import Any

import shmtensor._core as _core
from shmtensor.multiprocessing._inherit import Inheritance
from shmtensor.multiprocessing._lifeline import Lifeline, lifeline_for_child

__all__ = ["ForkProcess", "ForkServerProcess", "Process", "ServerProcess", "SpawnProcess"]


class _Sharing(multiprocessing.process.BaseProcess):
    _inheritance: Inheritance | None = None
    _lifeline: Lifeline | None = None
    _message: _core.MessageScope | None = None

    def start(self) -> None:
        """Start the child. Tensors among the arguments are sent as handles.

        If the arguments cannot be pickled, or the child cannot be started, nothing stays allocated.
        """
        self._inheritance = Inheritance.of_this_process()
        if self._lifeline is None:
            self._lifeline = lifeline_for_child()
        message = _core.MessageScope()
        try:
            with message:
                super().start()
        except BaseException:
            if self._lifeline is not None:
                self._lifeline.cut()
            raise
        # Kept for as long as this object, which `multiprocessing` keeps until the child has ended: then
        # what the child did not come to load is taken back.
        self._message = message
        if self._lifeline is not None:
            assert self.pid is not None
            self._lifeline.started(self.pid)

    def _bootstrap(self, *args: Any, **kwargs: Any) -> int:
        if self._lifeline is not None:
            self._lifeline.hold()
        if self._inheritance is not None:
            self._inheritance.apply()
        method: str | None = getattr(self, "_start_method", None)
        if method is not None:
            from shmtensor.multiprocessing.context import default_context

            default_context.follow(method)
        return super()._bootstrap(*args, **kwargs)  # type: ignore[misc, no-any-return]


class Process(_Sharing, multiprocessing.Process):
    """A process started by the default start method."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802  # the standard library's name
        from shmtensor.multiprocessing.context import default_process

        return default_process()._Popen(process_obj)


class ForkProcess(_Sharing, std.ForkProcess):
    """A process started by fork."""


class SpawnProcess(_Sharing, std.SpawnProcess):
    """A process started by spawn."""


class ForkServerProcess(_Sharing, std.ForkServerProcess):
    """A process started by the fork server."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802  # the standard library's name
        try:
            return std.ForkServerProcess._Popen(process_obj)
        except (EOFError, ConnectionResetError, BrokenPipeError) as error:
            msg = (
                f"the fork server ended while it started {process_obj.name}; look at its standard error. "
                "Since Python 3.13.8 it imports the main module, so what shall run once belongs below "
                "`if __name__ == '__main__':`; the start method 'server' does not import it"
            )
            raise ChildProcessError(msg) from error


class ServerProcess(_Sharing):
    """A process started by the worker server."""

    _start_method = None  # the standard library knows no such method

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802  # the standard library's name
        from shmtensor.multiprocessing._popen_server import Popen

        return Popen(process_obj)
