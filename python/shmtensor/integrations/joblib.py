"""joblib: tensors, and large NumPy arrays, of `Parallel` travel through shared memory.

The integration replaces the functions below joblib's reducers, which executors that exist call, too. An
argument above ``max_nbytes`` is copied once for all tasks, where joblib would write one file; the copy ends
when joblib deletes the folder of that file, or with the array. It is marked as a copy, so that a worker that
returns its argument does not share it without the program's intention. docs/guide/with-joblib.md describes
the behaviour.
"""

from __future__ import annotations

import io
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import joblib.parallel
import joblib.pool
from joblib import _memmapping_reducer as memmapping

from shmtensor import reducers
from shmtensor._log import log_event
from shmtensor._threshold import is_large
from shmtensor.errors import OutOfSharedMemory
from shmtensor.integrations._joblib.arrays import Copies, can_be_copied, copy_of, reduce_copy
from shmtensor.integrations._loky import Loky
from shmtensor.integrations._queues import Pickler, closing, set_up_pool
from shmtensor.integrations._replacements import Replacements
from shmtensor.integrations._tables import REDUCERS

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["install", "reduce_result", "uninstall"]

BACKEND = "shmtensor"

_loky = Loky("joblib.externals.loky")
_replaced = Replacements()
_reduce_argument = memmapping.ArrayMemmapForwardReducer.__call__
_reduce_result = memmapping.reduce_array_memmap_backward
_clean = memmapping.TemporaryResourcesManager._clean_temporary_resources

_copies: dict[str, Copies] = {}
"""The copies of arguments, by the folder in which joblib would make a file of each."""


def install() -> None:
    """Replace what joblib does with arrays; register tensors with both backends, and a third backend."""
    _loky.install()
    _replaced.set(joblib.pool.PicklingPool, "_setup_queues", set_up_queues)
    terminate = joblib.pool.MemmappingPool.terminate
    _replaced.set(joblib.pool.MemmappingPool, "terminate", closing(terminate))
    _replaced.set(memmapping.ArrayMemmapForwardReducer, "__call__", reduce_argument)
    _replaced.set(memmapping, "reduce_array_memmap_backward", reduce_result)
    _replaced.set(memmapping.TemporaryResourcesManager, "_clean_temporary_resources", clean)
    joblib.parallel.register_parallel_backend(BACKEND, make_backend)


def uninstall() -> None:
    """Restore joblib."""
    _loky.uninstall()
    _replaced.restore()
    joblib.parallel.BACKENDS.pop(BACKEND, None)
    pools = sys.modules.get("shmtensor.integrations._joblib.pools")
    if pools is not None:
        pools.close_idle()


def make_backend(**options: Any) -> Any:
    """Return the backend for a call of `Parallel`, or for a `parallel_config`."""
    from shmtensor.integrations._joblib.backend import Backend  # with pools and their workers' code

    return Backend(**options)


def reduce_argument(reducer: Any, array: npt.NDArray[Any]) -> Any:
    """Reduce an argument of a task; above `max_nbytes` to a copy that is made once for all tasks."""
    shared = reducers.reduce_shared(array)
    if shared is not None:
        return shared
    large = reducer._max_nbytes is not None and array.nbytes > reducer._max_nbytes
    if large and reducer._mmap_mode == "r" and can_be_copied(array):
        try:
            copy = _copies.setdefault(reducer._temp_folder, Copies()).of(array)
        except OutOfSharedMemory as error:
            log_event(f"joblib copies an array of {array.nbytes} bytes through a file: {error}")
        else:
            return reduce_copy(array, copy, readonly=True)
    return _reduce_argument(reducer, array)


def reduce_result(array: npt.NDArray[Any]) -> Any:
    """Reduce a result."""
    shared = reducers.reduce_shared(array)
    if shared is not None:
        return shared
    if is_large(array.nbytes) and can_be_copied(array):
        try:
            return reduce_copy(array, copy_of(array), readonly=False)
        except OutOfSharedMemory as error:
            log_event(f"joblib sends a result of {array.nbytes} bytes without shared memory: {error}")
    return _reduce_result(array)


def clean(manager: Any, context_id: Any = None, *args: Any, **options: Any) -> None:
    """Release the copies when joblib deletes its files."""
    copies = _copies.pop(manager._cached_temp_folders.get(context_id), None)
    if copies is not None:
        copies.clear()
    _clean(manager, context_id, *args, **options)


def set_up_queues(pool: Any) -> None:
    """Give a pool of the backend "multiprocessing" our queues."""
    picklers = (
        Pickler(partial(dumps, reducers_of_pool)) if reducers_of_pool else None
        for reducers_of_pool in (pool._forward_reducers, pool._backward_reducers)
    )
    set_up_pool(pool, *picklers)


def dumps(reducers_of_pool: Any, message: Any) -> bytes:
    """Pickle a message as that pool does, which has no table of reducers for all pools."""
    buffer = io.BytesIO()
    joblib.pool.CustomizablePickler(buffer, REDUCERS | reducers_of_pool).dump(message)
    return buffer.getvalue()
