"""What a worker of `spawn` does, from its first line to its last."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shmtensor.multiprocessing._settings import Settings

__all__ = ["Work"]

_INTERRUPTED = 130  # what shells report for a program that SIGINT ended


class Work:
    """The target of a worker's Process object."""

    def __init__(self, rank: int, call: Any, report: Any, settings: Settings) -> None:
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
            _drop_own_frame(error)
            if report.raised(error) or isinstance(error, KeyboardInterrupt):
                sys.exit(_INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1)
            raise  # whoever started this worker let go of it: it is told on standard error
        report.returned(value)


def _drop_own_frame(error: BaseException) -> None:
    first = error.__traceback__
    if first is not None and first.tb_next is not None:
        error.__traceback__ = first.tb_next
