"""Starting one worker of `spawn`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shmtensor.multiprocessing import process as _process
from shmtensor.multiprocessing._lifetime.parent_death import ParentDeathPipe
from shmtensor.multiprocessing._spawn.monitor import Worker
from shmtensor.multiprocessing._spawn.popen import Popen
from shmtensor.multiprocessing._spawn.report import ReportPipe
from shmtensor.multiprocessing._spawn.worker import Call, Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from shmtensor.multiprocessing._spawn.settings import Settings

__all__ = ["launch"]


class _ProcessWithSettings(_process.SpawnProcess):
    """A new interpreter that starts with its own environment and CPUs."""

    settings: Settings

    @staticmethod
    def _Popen(process_obj: Any) -> Popen:  # noqa: N802  # the standard library's name
        return Popen(process_obj)


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
