"""The pickler of messages: kept between them, with large buffers in shared memory."""

from __future__ import annotations

import copyreg
import io
import pickle
import threading
from functools import partial
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

import numpy as np

import shmtensor._core as _core
from shmtensor import reducers
from shmtensor.storage import Storage
from shmtensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable


class Reducers(dict[type, Any]):
    """The reducers of `multiprocessing`, then those of `copyreg`. Only those of this package are kept."""

    def __missing__(self, kind: type) -> Any:
        reducers: dict[type, Any] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
        try:
            reducer = reducers[kind]
        except KeyError:
            return copyreg.dispatch_table[kind]
        if kind.__module__.startswith("shmtensor."):
            self[kind] = reducer
        return reducer


_REDUCERS = Reducers({np.ndarray: reducers.reduce_array_out_of_band})


class MessagePickler(pickle.Pickler):
    """A pickler that copies large buffers into shared memory, and is used for one message after another."""

    many_readers = False

    def __init__(self) -> None:
        self.file = io.BytesIO()
        self.buffers: list[Storage | Tensor] = []
        # Without a reference to this object: in a cycle, the objects in its memo would live on.
        keep = partial(_keep_in_band, self.buffers, self.many_readers)
        super().__init__(self.file, 5, buffer_callback=keep)
        self.dispatch_table = _REDUCERS

    def dumps(self, value: object) -> bytes:
        """Return the pickle of a message."""
        try:
            stream = self._pickle(value)
            if not self.buffers:
                return stream
            # The buffers follow the stream, in a pickle that has nothing else.
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


class BroadcastPickler(MessagePickler):
    """The same for messages that several processes read: none of them may write into a copied buffer."""

    many_readers = True


def _keep_in_band(buffers: list[Storage | Tensor], many_readers: bool, buffer: pickle.PickleBuffer) -> bool:
    """Add a buffer that is, or shall be, in shared memory; return True for one that stays in the pickle.

    A storage is a copy, which a single reader may write; a tensor is memory that both sides share, or that no
    process writes.
    """
    try:
        raw = buffer.raw()
    except BufferError:  # not contiguous
        return True
    shared = _core.tensor_over_buffer(raw)
    if shared is not None:
        buffers.append(shared)
        return False
    threshold = reducers.buffer_threshold()
    if threshold is None or raw.nbytes < max(threshold, 1):
        return True
    copy = _core.copy_of_buffer(raw)
    buffers.append(Tensor(copy, "uint8", (copy.nbytes,), readonly=True) if many_readers else copy)
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
dumps_for_many = dumps_by(BroadcastPickler)


class _WithBuffers:
    """A pickle whose buffers are in shared memory: unpickled, it is the value."""

    def __init__(self, stream: bytes, buffers: list[Storage | Tensor]) -> None:
        self._parts = stream, buffers

    def __reduce__(self) -> Any:
        return load_with_buffers, self._parts


def load_with_buffers(stream: bytes, buffers: list[Storage | Tensor]) -> Any:
    """Return the value of a pickle; its arrays use the memory of the buffers."""
    for buffer in buffers:
        if isinstance(buffer, Storage):
            _core.mark_copy(buffer)
    return pickle.loads(stream, buffers=buffers)
