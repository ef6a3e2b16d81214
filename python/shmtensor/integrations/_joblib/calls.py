"""Batches of joblib's calls as tasks of a pool, and what they return.

A task contains the pickle of its batch, and the answer that of its result: what cannot be unpickled is an
exception of this task, and neither ends the worker nor the thread that receives results.
"""

from __future__ import annotations

import pickle
from functools import partial
from multiprocessing import pool
from typing import TYPE_CHECKING, Any

import numpy as np

from shmtensor import reducers
from shmtensor._queue.pickling import MessagePickler, Reducers
from shmtensor.integrations._joblib.arrays import (
    copy_of,
    is_in_file,
    reduce_copy,
    reduce_for_one,
    reduce_shared,
)
from shmtensor.integrations._tables import REDUCERS
from shmtensor.multiprocessing._by_value.reducer import ByValuePickler
from shmtensor.multiprocessing.connection import loads_or_release

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

__all__ = ["Call", "Outcome", "fail_all"]

_pool: Any = pool  # whose classes for tracebacks are not in its stub
_failure: BaseException | None = None


def fail_all(error: BaseException) -> None:
    """Let every call in this worker raise an exception: that of its initializer."""
    global _failure
    _failure = error


class Call:
    """A batch of calls, sent to a worker.

    Parameters
    ----------
    batch
        Is called without arguments and returns a list.
    reduce_array
        Reduces the NumPy arrays among its arguments.
    """

    def __init__(self, batch: Any, reduce_array: Callable[[Any], Any]) -> None:
        self._batch = batch
        self._reduce_array = reduce_array

    def __reduce__(self) -> Any:
        return _load_call, (_dumps(ByValuePickler(), self._batch, self._reduce_array),)

    def __repr__(self) -> str:
        """Return the name of the first function, as part of a message."""
        items = getattr(self._batch, "items", None) or [(self._batch,)]
        function = items[0][0]
        return getattr(function, "__qualname__", None) or repr(function)


class Outcome:
    """What a batch has returned, or the exception that it has raised, with its traceback as text."""

    def __init__(self, value: Any, trace: str | None = None) -> None:
        self._value = value
        self._trace = trace

    def result(self) -> Any:
        """Return the value, or raise the exception."""
        if self._trace is not None:
            raise self._value
        return self._value

    def __reduce__(self) -> Any:
        return _load_outcome, (_dumps(MessagePickler(), self._value, _reduce_result), self._trace)

    def __repr__(self) -> str:
        """Return what a message contains if the value cannot be pickled."""
        return repr(self._value) if self._trace is None else self._trace


def _dumps(pickler: MessagePickler, value: Any, reduce_array: Callable[[Any], Any]) -> bytes:
    pickler.dispatch_table = Reducers({**REDUCERS, np.ndarray: reduce_array, np.memmap: reduce_array})
    return pickler.dumps(value)


def _load_call(content: bytes) -> Callable[[], Outcome]:
    try:
        return partial(_run, loads_or_release(content))
    except Exception as error:
        return partial(_failed, error)


def _run(batch: Callable[[], Any]) -> Outcome:
    try:
        if _failure is not None:
            raise _failure
        return Outcome(batch())
    except BaseException as error:
        return _failed(error)


def _failed(error: BaseException) -> Outcome:
    return Outcome(error, _pool.ExceptionWithTraceback(error, error.__traceback__).tb)


def _load_outcome(content: bytes, trace: str | None) -> Outcome:
    remote = None if trace is None else _pool.RemoteTraceback(trace)
    try:
        value = loads_or_release(content)
    except Exception as error:
        what = "a result" if trace is None else "the exception of a task"
        value = pickle.UnpicklingError(f"{what} cannot be unpickled: {error!r}")
        value.__cause__ = remote or error
        return Outcome(value, trace or "")
    if remote is not None:
        value.__cause__ = remote
    return Outcome(value, trace)


def _reduce_result(array: npt.NDArray[Any]) -> Any:
    shared = reduce_shared(array)
    if shared is not None:
        return shared
    if is_in_file(array):
        from joblib import _memmapping_reducer as memmapping

        return memmapping.reduce_array_memmap_backward(array)
    if not array.flags.writeable and reducers.is_large(array.nbytes) and not array.dtype.hasobject:
        return reduce_copy(array, copy_of(array), readonly=False)  # the copy is the parent's
    return reduce_for_one(array)
