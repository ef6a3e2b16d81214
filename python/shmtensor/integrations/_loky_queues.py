"""Queues of the drop-in, with what loky's executors use of their own ones."""

from __future__ import annotations

import importlib
import queue
from functools import partial
from typing import Any

import shmtensor._core as _core
from shmtensor._array_reducers import ARRAYS, reduce_private
from shmtensor.integrations import _queues


def _reduce(array: Any) -> Any:
    return _queues.reduce_large(array) or reduce_private(array)


_ARRAYS = dict.fromkeys(ARRAYS, _core.array_reducer(_reduce))


def dumps(package: str, reducers: Any, message: Any) -> Any:
    """Pickle a message as a copy of loky does, with the reducers of the executor."""
    reduction = importlib.import_module(f"{package}.backend.reduction")
    return reduction.dumps(message, reducers=_ARRAYS | (reducers or {}))


class ResultQueue(_queues.SimpleQueue):
    """In place of loky's `SimpleQueue`."""

    def __init__(self, package: str, reducers: Any = None, ctx: Any = None) -> None:  # noqa: ARG002
        super().__init__()
        self._dumps = _queues.Pickler(partial(dumps, package, reducers))


class CallQueue(_queues.Queue):
    """In place of loky's `_SafeQueue`: a task that cannot be pickled fails alone.

    Parameters
    ----------
    package
        The copy of loky.
    safe
        Its `_SafeQueue`, whose method sets the exception of a task.
    **state
        The attributes of a `_SafeQueue`, which that method uses.
    """

    def __init__(
        self,
        package: str,
        safe: Any,
        max_size: int = 0,
        ctx: Any = None,  # noqa: ARG002
        reducers: Any = None,
        **state: Any,
    ) -> None:
        super().__init__(max_size)
        self._dumps = _queues.Pickler(partial(dumps, package, reducers))
        self._safe = safe
        vars(self).update(state)

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        """Put a task; what its pickler raises is the result of the task, even SystemExit."""
        try:
            super().put(obj, block, timeout)
        except queue.Full:
            raise
        except BaseException as error:
            self._safe._on_queue_feeder_error(self, error, obj)
