"""What a worker has started, so that it can be ended with it."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from shmtensor._procfs import children

__all__ = ["Descendants"]


class Descendants:
    """The processes below a process, held by descriptors, so that none is taken for another."""

    def __init__(self, pid: int) -> None:
        self._pidfds: list[int] = []
        self._collect(pid)

    def _collect(self, pid: int) -> None:
        for child in children(pid):
            with suppress(OSError):  # gone already, or no descriptor is left for it
                self._pidfds.append(os.pidfd_open(child))
            self._collect(child)

    def kill(self) -> None:
        """Kill those that still live, and let go of all."""
        for pidfd in self._pidfds:
            with suppress(OSError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)
        self._pidfds.clear()
