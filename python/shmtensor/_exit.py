"""The last look at the manager before a process ends."""

from __future__ import annotations

import sys
from multiprocessing import util

import shmtensor._core as _core

__all__: list[str] = []


def _at_exit(_: object) -> None:
    # After the feeders of queues have written (-5): what they sent must outlive this process, so if
    # the manager was killed since, another one is told of it.
    util.Finalize(None, _core.follow_managers, exitpriority=-100)


_at_exit(None)
# A child begins with an empty list of these.
util.register_after_fork(sys.modules[__name__], _at_exit)
