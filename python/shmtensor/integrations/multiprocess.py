"""multiprocess, the copy of multiprocessing that pickles by dill: tensors travel as handles.

dill has a function of its own for NumPy's arrays, which precedes registered reducers; so this integration
sets `reducer_override`, which comes before it. docs/guide/with-datasets.md describes the behaviour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import multiprocess
import numpy as np
from multiprocess import connection, popen_fork, process, queues, reduction, spawn

from shmtensor._copies import reduce_to_copy
from shmtensor._log import log_event
from shmtensor._threshold import is_large
from shmtensor.errors import OutOfSharedMemory
from shmtensor.integrations._children import pass_on_to_children
from shmtensor.integrations._registry import state
from shmtensor.integrations._replacements import Replacements
from shmtensor.integrations._sending import into_pipe, is_sending, of_feeder, of_queue, pickles_message
from shmtensor.integrations._server_method import ServerMethod
from shmtensor.integrations._tables import REDUCERS
from shmtensor.reducers import reduce_shared

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["install", "uninstall"]

_pickler: Any = reduction.ForkingPickler
_replaced = Replacements()
_server = ServerMethod(multiprocess)
_launch: Any = popen_fork.Popen._launch
_bootstrap: Any = process.BaseProcess._bootstrap


def install() -> None:
    """Use our reducers, also in children that start from now on; add a start method; fork as ours does."""
    _replaced.set(_pickler, "reducer_override", _reduce)
    _replaced.set(_pickler, "dumps", classmethod(pickles_message(_pickler.dumps.__func__)))
    send = into_pipe(connection._ConnectionBase.send, lambda sender, _: sender)
    _replaced.set(connection._ConnectionBase, "send", send)
    _replaced.set(queues.Queue, "_feed", staticmethod(into_pipe(queues.Queue._feed, of_feeder)))
    _replaced.set(queues.SimpleQueue, "put", into_pipe(queues.SimpleQueue.put, of_queue))
    _replaced.set(popen_fork.Popen, "_launch", _fork)
    _replaced.set(process.BaseProcess, "_bootstrap", _begin)
    pass_on_to_children(state, spawn)
    _server.install()


def uninstall() -> None:
    """Restore multiprocess."""
    _server.uninstall()
    _replaced.restore()


def _reduce(_pickler: Any, obj: Any) -> Any:
    if isinstance(obj, np.ndarray):
        return reduce_shared(obj) or _reduce_large(obj) or NotImplemented
    reducer = REDUCERS.get(type(obj))
    return NotImplemented if reducer is None else reducer(obj)


def _reduce_large(array: npt.NDArray[Any]) -> Any:
    """Reduce a large array to a copy that all its messages have in common; None for another array."""
    if (
        type(array) is not np.ndarray
        or array.dtype.hasobject
        or not array.flags.forc
        or not is_large(array.nbytes)
        or not is_sending()
    ):
        return None
    try:
        return reduce_to_copy(array)
    except OutOfSharedMemory as error:
        log_event(f"multiprocess sends {array.nbytes} bytes without shared memory: {error}")
        return None


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
