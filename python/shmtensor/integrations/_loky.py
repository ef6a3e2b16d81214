"""loky, of which joblib has a copy: tensors travel as handles in tasks and results.

loky pickles by cloudpickle and a table of reducers, then writes into a pipe; `_sending` assigns the tickets
to that pipe.
"""

from __future__ import annotations

import gc
import importlib
import os
from pathlib import Path
from typing import Any

from shmtensor.integrations import _tables
from shmtensor.integrations._children import pass_on_to_children
from shmtensor.integrations._registry import state
from shmtensor.integrations._replacements import Replacements
from shmtensor.integrations._sending import into_pipe, of_feeder, of_queue, pickles_message

__all__ = ["Loky"]


class Loky:
    """The integration of one copy of the package."""

    def __init__(self, package: str) -> None:
        self._queues, self._reduction, self._spawn = (
            importlib.import_module(f"{package}.backend.{name}") for name in ("queues", "reduction", "spawn")
        )
        self._executor = importlib.import_module(f"{package}.process_executor")
        self._replaced = Replacements()

    def install(self) -> None:
        """Register the reducers, also in workers that start from now on."""
        _tables.follow(self._reduction._dispatch_table)
        queues: Any = self._queues
        self._replaced.set(queues, "dumps", pickles_message(queues.dumps))
        self._replaced.set(queues.Queue, "_feed", staticmethod(into_pipe(queues.Queue._feed, of_feeder)))
        put = into_pipe(queues.SimpleQueue.put, of_queue)
        self._replaced.set(queues.SimpleQueue, "put", put)
        if hasattr(self._executor, "_get_memory_usage"):  # where psutil is installed
            self._replaced.set(self._executor, "_get_memory_usage", private_memory)
        pass_on_to_children(state, self._spawn)

    def uninstall(self) -> None:
        """Restore loky."""
        _tables.unfollow(self._reduction._dispatch_table)
        self._replaced.restore()


def private_memory(pid: int, force_gc: bool = False) -> int:
    """Return the bytes of a process without those in files and shared memory.

    loky replaces a worker whose memory has grown by 300 MB, as one that leaks. One that has touched that much
    shared memory has not leaked it.
    """
    if force_gc:
        gc.collect()
    _, resident, shared, *_ = map(int, Path(f"/proc/{pid}/statm").read_text().split())
    return (resident - shared) * os.sysconf("SC_PAGESIZE")
