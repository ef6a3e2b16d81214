"""Our queues for other libraries, with their picklers.

Unread messages are freed with their queue, however its processes have ended. A message for which shared
memory has no room goes through a file, since those libraries' own pipes need none.
"""

from __future__ import annotations

import functools
import os
import pickle
import tempfile
import threading
from multiprocessing import reduction
from typing import TYPE_CHECKING, Any

import shmtensor._core as _core
from shmtensor._array_reducers import pickles_as_ndarray
from shmtensor._copies import reduce_to_copy
from shmtensor._log import log_event
from shmtensor._pickling import dumps_shared
from shmtensor._threshold import is_large
from shmtensor.errors import OutOfSharedMemory
from shmtensor.multiprocessing import connection, queues

if TYPE_CHECKING:
    import numpy.typing as npt


class Pickler:
    """Pickles messages by another library's function, large ones into a block or a file without a name.

    The file ends with this process, if it is not read before.
    """

    def __init__(self, dumps: Any) -> None:
        self.dumps = dumps

    def __call__(self, message: Any) -> bytes:
        """Return the pickle of a message."""
        content = memoryview(self.dumps(message))
        if not is_large(content.nbytes):
            return bytes(content)
        try:
            return dumps_shared(_Reduced(load_block, _core.copy_of_buffer(content)))
        except OutOfSharedMemory as error:
            log_event(f"a message of {content.nbytes} bytes goes through a file: {error}")
        with tempfile.TemporaryFile(buffering=0) as file:
            file.write(content)
            return dumps_shared(_Reduced(load_file, reduction.DupFd(file.fileno())))


class _Reduced:
    def __init__(self, load: Any, argument: Any) -> None:
        self._parts = load, (argument,)

    def __reduce__(self) -> Any:
        return self._parts


def load_block(block: Any) -> Any:
    """Return the message that a block has."""
    return pickle.loads(memoryview(block))


def load_file(duplicate: Any) -> Any:
    """Return the message that a file has."""
    with open(duplicate.detach(), "rb") as file:
        return pickle.loads(os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0))


def reduce_large(array: npt.NDArray[Any]) -> Any:
    """Reduce a large array to a copy that all its messages have in common; None for another array."""
    if not (pickles_as_ndarray(type(array)) and is_large(array.nbytes)) or array.dtype.hasobject:
        return None
    try:
        return reduce_to_copy(array)
    except OutOfSharedMemory as error:
        log_event(f"an array of {array.nbytes} bytes is sent without shared memory: {error}")
        return None


class _Pickled:
    """A queue that has its pickler in each process."""

    _dumps: Any

    def __getstate__(self) -> Any:
        return *super().__getstate__(), self._dumps  # type: ignore[misc]

    def __setstate__(self, state: Any) -> None:
        *rest, dumps = state
        super().__setstate__(rest)  # type: ignore[misc]
        self._dumps = dumps

    def __reduce_ex__(self, _protocol: Any) -> Any:
        return object.__reduce_ex__(self, 2)


class Queue(_Pickled, queues.Queue[Any]):
    """A queue with another pickler."""


class JoinableQueue(_Pickled, queues.JoinableQueue[Any]):
    """A joinable queue with another pickler."""


class SimpleQueue(_Pickled, queues.SimpleQueue[Any]):
    """A simple queue with another pickler."""


class PoolQueue:
    """The queue of a pool like the standard library's: a pipe, since workers close ends they do not use."""

    def __init__(self, dumps: Any) -> None:
        self.__setstate__((*connection.Pipe(duplex=False), dumps))

    def __getstate__(self) -> Any:
        return self._reader, self._writer, self._writer._dumps

    def __setstate__(self, state: Any) -> None:
        self._reader, self._writer, self._writer._dumps = state
        self._rlock = threading.Lock()  # which a pool acquires when it ends; `get` needs none
        self.get, self.put = self._reader.recv, self._writer.send

    def close(self) -> None:
        """Close both ends in this process."""
        self._reader.close()
        self._writer.close()


def set_up_pool(pool: Any, dumps_task: Any, dumps_result: Any) -> None:
    """Give a pool like the standard library's our queues, with a pickler each; None: the usual one."""
    pool._inqueue, pool._outqueue = PoolQueue(dumps_task), PoolQueue(dumps_result)
    pool._quick_put, pool._quick_get = pool._inqueue.put, pool._outqueue.get


def closing(terminate: Any) -> Any:
    """Return `terminate` of a pool, which closes its queues, too: a cycle keeps one with unfinished calls."""

    @functools.wraps(terminate)
    def terminate_and_close(pool: Any) -> None:
        terminate(pool)
        for queue in (pool._inqueue, pool._outqueue):
            if isinstance(queue, PoolQueue):
                queue.close()

    return terminate_and_close
