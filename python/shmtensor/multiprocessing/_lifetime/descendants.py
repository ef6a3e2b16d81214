"""The processes that a worker has started, so that they can be killed with it."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from shmtensor._procfs import children


class Descendants:
    """All descendants of a process, held by pidfds, so that a recycled pid cannot be mistaken for one."""

    def __init__(self, pid: int) -> None:
        self._pidfds: list[int] = []
        self._collect(pid)

    def _collect(self, pid: int) -> None:
        for child in children(pid):
            with suppress(OSError):  # it has ended, or no descriptor is left
                self._pidfds.append(os.pidfd_open(child))
            self._collect(child)

    def kill(self) -> None:
        """Kill the descendants that still live, and close all pidfds."""
        for pidfd in self._pidfds:
            with suppress(OSError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)
        self._pidfds.clear()
