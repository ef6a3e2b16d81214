"""Starting one worker of `spawn`.

The standard library's Popen passes the environment of this process. A worker needs its own from the
beginning: libraries read OMP_NUM_THREADS and count CPUs when they are loaded.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from multiprocessing import popen_spawn_posix, resource_tracker, util
from multiprocessing import spawn as std
from typing import TYPE_CHECKING, Any

from shmtensor.multiprocessing import process as _process
from shmtensor.multiprocessing._lifetime.parent_death import ParentDeathPipe
from shmtensor.multiprocessing._pickles import dumps_for_child
from shmtensor.multiprocessing._spawn.monitor import Worker
from shmtensor.multiprocessing._spawn.report import ReportPipe
from shmtensor.multiprocessing._spawn.worker import Call, Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from shmtensor.multiprocessing._spawn.settings import Settings


class _Popen(popen_spawn_posix.Popen):
    """The Popen of a Process object that has `Settings` and is started by spawn."""

    _fds: list[int]

    def _launch(self, process_obj: Any) -> None:
        settings: Settings = process_obj.settings
        tracker = resource_tracker.getfd()
        assert tracker is not None
        message = dumps_for_child(self, std.get_preparation_data(process_obj.name), process_obj)
        environment = dict(os.environ)
        settings.change(environment)
        parent_r, child_w = os.pipe()
        child_r, parent_w = os.pipe()
        self.finalizer = util.Finalize(self, util.close_fds, (parent_r, parent_w))  # type: ignore[attr-defined]
        self.sentinel = parent_r
        try:
            started = subprocess.Popen(
                std.get_command_line(tracker_fd=tracker, pipe_handle=child_r),
                executable=std.get_executable(),
                env=environment,
                pass_fds=[*self._fds, tracker, child_r, child_w],
            )
        finally:
            os.close(child_r)
            os.close(child_w)
        started.returncode = 0  # this class waits for the child, not `subprocess`
        self.pid = started.pid
        if settings.cpus is not None:
            with suppress(ProcessLookupError):  # it has ended already, as its sentinel will report
                os.sched_setaffinity(self.pid, settings.cpus)
        # It may have ended already. A short message is written only when the file is closed.
        with suppress(BrokenPipeError), open(parent_w, "wb", closefd=False) as file:
            file.write(message)


class _ProcessWithSettings(_process.SpawnProcess):
    """A new interpreter that starts with its own environment and CPUs."""

    settings: Settings

    @staticmethod
    def _Popen(process_obj: Any) -> _Popen:  # noqa: N802  # the standard library's name
        return _Popen(process_obj)


def launch(  # noqa: PLR0917
    context: Any,
    rank: int,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    settings: Settings,
    daemon: bool,
) -> Worker:
    """Start a worker by the start method of a context. If that fails, everything is closed again."""
    call = Call(function, args)
    pipe = ReportPipe()
    target = Target(rank, call, pipe, settings)
    if settings.before_start and context.get_start_method() == "spawn":
        process = _ProcessWithSettings(target=target, daemon=daemon)
        process.settings = settings
    else:
        process = context.Process(target=target, daemon=daemon)
    process._parent_death = ParentDeathPipe()
    try:
        process.start()
    except BaseException:
        pipe.close()
        raise
    finally:
        call.close()
    pipe.started()
    return Worker(rank, process, pipe)
