"""loky, of which joblib has a copy: tensors travel as handles in tasks and results.

loky pickles by cloudpickle and a table of reducers; its executors have our queues.
"""

from __future__ import annotations

import gc
import importlib
from functools import partial

from shmtensor.integrations import _tables
from shmtensor.integrations._children import pass_on_to_children
from shmtensor.integrations._loky_queues import CallQueue, ResultQueue
from shmtensor.integrations._registry import state
from shmtensor.integrations._replacements import Replacements
from shmtensor.multiprocessing._pool.running import private_bytes


class Loky:
    """The integration of one copy of the package."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._reduction, self._spawn = (
            importlib.import_module(f"{package}.backend.{name}") for name in ("reduction", "spawn")
        )
        self._executor = importlib.import_module(f"{package}.process_executor")
        self._replaced = Replacements()

    def install(self) -> None:
        """Register the reducers, also in workers that start from now on."""
        _tables.follow(self._reduction._dispatch_table)
        queue = partial(CallQueue, self._package, self._executor._SafeQueue)
        self._replaced.set(self._executor, "_SafeQueue", queue)
        self._replaced.set(self._executor, "SimpleQueue", partial(ResultQueue, self._package))
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
    return private_bytes(pid)
