"""The pickler of queues: kept between messages, with large buffers in shared memory."""

from __future__ import annotations

import copyreg
import io
import pickle
import threading
from functools import partial
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

import shmtensor._core as _core
from shmtensor.reducers import ArrayReducer

if TYPE_CHECKING:
    from collections.abc import Callable

    from shmtensor.storage import Storage

_PROTOCOL = 5  # with buffers
# A smaller buffer is copied into the message.
_THRESHOLD = 64 * 1024


class _Reducers(dict[type, Any]):
    """The reducers of `multiprocessing`, then those of `copyreg`. Only those of this package are kept."""

    def __missing__(self, kind: type) -> Any:
        reducers: dict[type, Any] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
        try:
            reducer = reducers[kind]
        except KeyError:
            return copyreg.dispatch_table[kind]
        if isinstance(reducer, ArrayReducer):
            return partial(reducer, protocol=_PROTOCOL)
        if kind.__module__.startswith("shmtensor."):
            self[kind] = reducer
        return reducer


_REDUCERS = _Reducers()


class MessagePickler(pickle.Pickler):
    """A pickler that copies large buffers into shared memory, and is used for one message after another."""

    def __init__(self) -> None:
        self.file = io.BytesIO()
        self.buffers: list[Storage] = []
        # Without a reference to this object: in a cycle, the objects in its memo would live on.
        super().__init__(self.file, _PROTOCOL, buffer_callback=partial(_keep_in_band, self.buffers))
        self.dispatch_table = _REDUCERS

    def dumps(self, value: object) -> bytes:
        """Return the pickle of a message."""
        try:
            stream = self._pickle(value)
            if not self.buffers:
                return stream
            # The storages follow the stream, in a pickle that has nothing else.
            return self._pickle(_WithBuffers(stream, self.buffers))
        finally:
            self.buffers.clear()

    def _pickle(self, value: object) -> bytes:
        try:
            self.dump(value)
            return self.file.getvalue()
        finally:
            self.file.seek(0)
            self.file.truncate()
            self.clear_memo()


def _keep_in_band(buffers: list[Storage], buffer: pickle.PickleBuffer) -> bool:
    """Copy a large buffer into shared memory; return True for one that belongs into the pickle."""
    try:
        raw = buffer.raw()
    except BufferError:  # not contiguous
        return True
    if raw.nbytes < _THRESHOLD:
        return True
    storage = _core.new_storage(raw.nbytes, False)
    memoryview(storage)[:] = raw
    buffers.append(storage)
    return False


class _Kept(threading.local):
    pickler: MessagePickler | None = None


def dumps_by(kind: type[MessagePickler]) -> Callable[[object], bytes]:
    """Return a function that pickles messages, with one pickler for each thread."""
    kept = _Kept()

    def dumps(value: object) -> bytes:
        pickler, kept.pickler = kept.pickler or kind(), None  # a reducer may put a message, too
        content = pickler.dumps(value)
        kept.pickler = pickler  # after an exception, perhaps that of a signal handler, its memo may be full
        return content

    return dumps


dumps = dumps_by(MessagePickler)


class _WithBuffers:
    """A pickle whose buffers are in shared memory: unpickled, it is the value."""

    def __init__(self, stream: bytes, buffers: list[Storage]) -> None:
        self._parts = stream, buffers

    def __reduce__(self) -> Any:
        return load_with_buffers, self._parts


def load_with_buffers(stream: bytes, buffers: list[Storage]) -> Any:
    """Return the value of a pickle; its arrays use the memory of the storages."""
    return pickle.loads(stream, buffers=buffers)
