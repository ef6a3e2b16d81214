"""Starting a new interpreter with an environment and processors of its own.

The standard library's Popen hands on the environment of this process. A worker's must be there before it
begins: libraries read OMP_NUM_THREADS and count processors when they are loaded.
"""

from __future__ import annotations

import io
import os
import subprocess
from contextlib import suppress
from multiprocessing import context, popen_spawn_posix, reduction, resource_tracker, util
from multiprocessing import spawn as std
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Popen"]


class Popen(popen_spawn_posix.Popen):
    """What a Process object of spawn starts itself with; the Process has the `Settings`."""

    _fds: list[int]

    def _launch(self, process_obj: Any) -> None:
        tracker = resource_tracker.getfd()
        assert tracker is not None
        message = self._pickle(process_obj)
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
        started.returncode = 0  # this class waits for it, not that one
        self.pid = started.pid
        if process_obj.settings.cpus is not None:
            with suppress(ProcessLookupError):  # it has ended already, which its sentinel tells
                os.sched_setaffinity(self.pid, process_obj.settings.cpus)
        # It may have ended already. What is short is only written when the file is closed.
        with suppress(BrokenPipeError), open(parent_w, "wb", closefd=False) as file:
            file.write(message)

    def _pickle(self, process_obj: Any) -> bytes:
        preparation = std.get_preparation_data(process_obj.name)
        buffer = io.BytesIO()
        context.set_spawning_popen(self)
        try:
            reduction.dump(preparation, buffer)
            reduction.dump(process_obj, buffer)
        finally:
            context.set_spawning_popen(None)
        return buffer.getvalue()


def _changed(environment: Mapping[str, str | None] | None) -> dict[str, str]:
    changed = dict(os.environ)
    for name, value in (environment or {}).items():
        if value is None:
            changed.pop(name, None)
        else:
            changed[name] = value
    return changed
