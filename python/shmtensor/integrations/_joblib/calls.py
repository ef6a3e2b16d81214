"""Batches of joblib's calls as tasks of a pool, and what they return.

A task contains the pickle of its batch, and the answer that of its result, because their arrays have reducers
of their own.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from shmtensor import reducers
from shmtensor._array_reducers import ARRAYS
from shmtensor._pickling import MessagePickler
from shmtensor._reducer_tables import MessageReducers
from shmtensor.integrations._joblib.arrays import is_in_file
from shmtensor.integrations._tables import REDUCERS
from shmtensor.multiprocessing._by_value.reducer import ByValuePickler
from shmtensor.multiprocessing._pickles import loads_or_release
from shmtensor.multiprocessing._pool.naming import name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt


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
        items = getattr(batch, "items", None) or [(batch,)]
        self.__qualname__ = name_of(items[0][0])  # for the errors of the pool

    def __reduce__(self) -> Any:
        return _load_call, (_dumps(ByValuePickler(), self._batch, self._reduce_array),)


class Outcome:
    """What a batch has returned, or an exception such as SystemExit, which would end the worker."""

    def __init__(self, value: Any, is_raised: bool = False) -> None:
        self._value = value
        self._is_raised = is_raised

    def result(self) -> Any:
        """Return the value, or raise the exception."""
        if self._is_raised:
            raise self._value
        return self._value

    def __reduce__(self) -> Any:
        return _load_outcome, (_dumps(MessagePickler(), self._value, _reduce_result), self._is_raised)

    def __repr__(self) -> str:
        """Return what a message contains if the value cannot be pickled."""
        return repr(self._value)


def _dumps(pickler: MessagePickler, value: Any, reduce_array: Callable[[Any], Any]) -> bytes:
    pickler.dispatch_table = MessageReducers(REDUCERS | dict.fromkeys((*ARRAYS, np.memmap), reduce_array))
    return pickler.dumps(value)


def _load_call(content: bytes) -> Callable[[], Outcome]:
    return partial(_run, loads_or_release(content))


def _run(batch: Callable[[], Any]) -> Outcome:
    try:
        return Outcome(batch())
    except Exception:
        raise
    except BaseException as error:
        return Outcome(error, is_raised=True)


def _load_outcome(content: bytes, is_raised: bool) -> Outcome:
    return Outcome(loads_or_release(content), is_raised)


def _reduce_result(array: npt.NDArray[Any]) -> Any:
    if is_in_file(array) and reducers.reduce_shared(array) is None:
        from joblib import _memmapping_reducer as memmapping

        return memmapping.reduce_array_memmap_backward(array)
    return reducers.reduce_array_out_of_band(array)
