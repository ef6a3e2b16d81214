"""multiprocess, the copy of multiprocessing that pickles by dill: tensors travel as handles.

dill has a function of its own for NumPy's arrays, which precedes registered reducers; so this integration
sets `reducer_override`, which comes before it. docs/guide/with-datasets.md describes the behaviour.
"""

from __future__ import annotations

from typing import Any

import multiprocess
import numpy as np
from multiprocess import connection, pool, popen_fork, process, queues, reduction, spawn

from shmtensor.integrations import _queues
from shmtensor.integrations._children import pass_on_to_children, release_unloaded_arguments
from shmtensor.integrations._registry import state
from shmtensor.integrations._replacements import Replacements
from shmtensor.integrations._server_method import ServerMethod
from shmtensor.integrations._tables import REDUCERS
from shmtensor.multiprocessing.connection import Pipe, PipeEnd, reduce_end
from shmtensor.reducers import reduce_shared

__all__ = ["JoinableQueue", "Queue", "SimpleQueue", "install", "make_pipe", "uninstall"]

_pickler: Any = reduction.ForkingPickler
_replaced = Replacements()
_server = ServerMethod(multiprocess)
_launch: Any = popen_fork.Popen._launch
_bootstrap: Any = process.BaseProcess._bootstrap


def install() -> None:
    """Use our reducers, also in children that start from now on; add a start method; fork as ours does."""
    _replaced.set(_pickler, "reducer_override", _reduce)
    for kind in (Queue, JoinableQueue, SimpleQueue):
        _replaced.set(queues, kind.__name__, kind)
    _replaced.set(connection, "Pipe", make_pipe)
    _replaced.set(pool.Pool, "_setup_queues", _set_up_queues)
    _replaced.set(pool.Pool, "terminate", _queues.closing(pool.Pool.terminate))
    _replaced.set(popen_fork.Popen, "_launch", _fork)
    _replaced.set(process.BaseProcess, "_bootstrap", _begin)
    pass_on_to_children(state, spawn)
    release_unloaded_arguments(process.BaseProcess)
    _server.install()


def uninstall() -> None:
    """Restore multiprocess."""
    _server.uninstall()
    _replaced.restore()


class MessagePickler(_pickler):  # type: ignore[misc]
    """The pickler of messages, which may copy their arrays into shared memory."""


def dumps(message: Any) -> Any:
    """Pickle a message."""
    return MessagePickler.dumps(message)


_dumps = _queues.Pickler(dumps)


class Queue(_queues.Queue):
    """In place of multiprocess's `Queue`."""

    def __init__(self, maxsize: int = 0, *, ctx: Any = None) -> None:  # noqa: ARG002
        super().__init__(maxsize)
        self._dumps = _dumps


class JoinableQueue(Queue, _queues.JoinableQueue):
    """In place of multiprocess's `JoinableQueue`."""


class SimpleQueue(_queues.SimpleQueue):
    """In place of multiprocess's `SimpleQueue`."""

    def __init__(self, *, ctx: Any = None) -> None:  # noqa: ARG002
        super().__init__()
        self._dumps = _dumps


def make_pipe(duplex: bool = True) -> tuple[PipeEnd, PipeEnd]:
    """Return two connected ends, in place of multiprocess's `Pipe`."""
    first, second = Pipe(duplex)
    first._dumps = second._dumps = _dumps
    return first, second


def open_end(rebuild: Any, *parts: Any) -> PipeEnd:
    """Return the end that was sent."""
    end: PipeEnd = rebuild(*parts)
    end._dumps = _dumps
    return end


def _set_up_queues(pool: Any) -> None:
    _queues.set_up_pool(pool, _dumps, _dumps)


def _reduce(pickler: Any, obj: Any) -> Any:
    if isinstance(obj, np.ndarray):
        shared = reduce_shared(obj)
        if shared is None and isinstance(pickler, MessagePickler):
            shared = _queues.reduce_large(obj)
        if shared and (attributes := getattr(obj, "__dict__", None)):  # which dill sends
            return (*shared, attributes, None, None, _set_attributes)
        return shared or NotImplemented
    if type(obj) is PipeEnd:
        rebuild, parts = reduce_end(obj)
        return open_end, (rebuild, *parts)
    reducer = REDUCERS.get(type(obj))
    return NotImplemented if reducer is None else reducer(obj)


def _set_attributes(array: Any, attributes: dict[str, Any]) -> None:
    vars(array).update(attributes)


def _fork(popen: Any, process_obj: Any) -> None:
    """Fork a child without a moment in which its signals are the parent's; `_begin` unblocks them."""
    from shmtensor.multiprocessing._lifetime.signals import blocked, valid_signals  # as below

    with blocked(*valid_signals()) as process_obj._signal_mask:
        _launch(popen, process_obj)


def _begin(process_obj: Any, *args: Any, **options: Any) -> Any:
    mask = getattr(process_obj, "_signal_mask", None)
    if mask is not None:
        from shmtensor.multiprocessing._lifetime.signals import begin_child

        begin_child(mask)
    return _bootstrap(process_obj, *args, **options)
