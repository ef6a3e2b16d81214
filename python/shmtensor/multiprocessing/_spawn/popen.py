"""Starting a new interpreter with its own environment and CPUs.

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

from shmtensor.multiprocessing._pickles import dumps_for_child

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Popen"]


class Popen(popen_spawn_posix.Popen):
    """The Popen of a Process object that has `Settings` and is started by spawn."""

    _fds: list[int]

    def _launch(self, process_obj: Any) -> None:
        tracker = resource_tracker.getfd()
        assert tracker is not None
        message = dumps_for_child(self, std.get_preparation_data(process_obj.name), process_obj)
        parent_r, child_w = os.pipe()
        child_r, parent_w = os.pipe()
        self.finalizer = util.Finalize(self, util.close_fds, (parent_r, parent_w))  # type: ignore[attr-defined]
        self.sentinel = parent_r
        try:
            started = subprocess.Popen(
                std.get_command_line(tracker_fd=tracker, pipe_handle=child_r),
                executable=std.get_executable(),
                env=_changed(process_obj.settings.environment),
                pass_fds=[*self._fds, tracker, child_r, child_w],
            )
        finally:
            os.close(child_r)
            os.close(child_w)
        started.returncode = 0  # this class waits for the child, not `subprocess`
        self.pid = started.pid
        if process_obj.settings.cpus is not None:
            with suppress(ProcessLookupError):  # it has ended already, as its sentinel will report
                os.sched_setaffinity(self.pid, process_obj.settings.cpus)
        # It may have ended already. A short message is written only when the file is closed.
        with suppress(BrokenPipeError), open(parent_w, "wb", closefd=False) as file:
            file.write(message)


def _changed(environment: Mapping[str, str | None] | None) -> dict[str, str]:
    changed = dict(os.environ)
    for name, value in (environment or {}).items():
        if value is None:
            changed.pop(name, None)
        else:
            changed[name] = value
    return changed
