"""Starting one worker of `spawn`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shmtensor.multiprocessing import _process
from shmtensor.multiprocessing._call import Call
from shmtensor.multiprocessing._lifeline import Lifeline
from shmtensor.multiprocessing._popen_spawn import Popen
from shmtensor.multiprocessing._report import ReportPipe
from shmtensor.multiprocessing._watch import Worker
from shmtensor.multiprocessing._work import Work

if TYPE_CHECKING:
    from collections.abc import Callable

    from shmtensor.multiprocessing._settings import Settings

__all__ = ["launch"]


class _SetProcess(_process.SpawnProcess):
    """A new interpreter with an environment and processors of its own from its beginning."""

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
    """Start a worker by the start method of a context. If that fails, nothing stays open."""
    call = Call(function, args)
    pipe = ReportPipe()
    work = Work(rank, call, pipe, settings)
    if settings.before_start and context.get_start_method() == "spawn":
        process = _SetProcess(target=work, daemon=daemon)
        process.settings = settings
    else:
        process = context.Process(target=work, daemon=daemon)
    process._lifeline = Lifeline()
    try:
        process.start()
    except BaseException:
        pipe.close()
        raise
    finally:
        call.sent()
    pipe.started()
    return Worker(rank, process, pipe)
