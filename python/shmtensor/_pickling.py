"""The pickler of messages: kept between them, with large buffers in shared memory."""

from __future__ import annotations

import io
import pickle
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import shmtensor._core as _core
from shmtensor._reducer_tables import MESSAGES
from shmtensor._threshold import is_large

if TYPE_CHECKING:
    from collections.abc import Callable

    from shmtensor.storage import Storage
    from shmtensor.tensor import Tensor


def copy_for_one(raw: memoryview) -> Storage | Tensor | None:
    """Return a copy that a single reader may write unless the buffer is read-only; None for a small one."""
    if raw.readonly:
        return _copy_for_many(raw)
    return _core.copy_of_buffer(raw) if is_large(raw.nbytes) else None


def _copy_for_many(raw: memoryview) -> Tensor | None:
    """Return a copy that no process may write; None for a small buffer."""
    if not is_large(raw.nbytes):
        return None
    from shmtensor.tensor import Tensor

    return Tensor(_core.copy_of_buffer(raw), "uint8", (raw.nbytes,), readonly=True)


class MessagePickler(pickle.Pickler):
    """A pickler that copies large buffers into shared memory, and is used for one message after another.

    Parameters
    ----------
    place
        Returns what is sent for a buffer in private memory; None: the buffer stays in the pickle.
    """

    def __init__(self, place: Callable[[memoryview], Any] = copy_for_one) -> None:
        import multiprocessing.reduction  # noqa: F401 - which registers sockets, for example

        self.file = io.BytesIO()
        self.buffers: list[Any] = []
        self.nbytes = 0  # of the last message, with its buffers
        # Without a reference to this object: in a cycle, the objects in its memo would live on.
        super().__init__(self.file, 5, buffer_callback=partial(_keep_in_band, self.buffers, place))
        self.dispatch_table = MESSAGES

    def dumps(self, value: object) -> bytes:
        """Return the pickle of a message."""
        try:
            stream = self.dump_apart(value)
            self.nbytes = len(stream)
            if not self.buffers:
                return stream
            self.nbytes += sum(buffer.nbytes for buffer in self.buffers)
            # The buffers follow the stream, in a pickle that has nothing else.
            return self.dump_apart(WithBuffers(stream, self.buffers))
        finally:
            self.buffers.clear()

    def dump_apart(self, value: object) -> bytes:
        """Return the pickle of a value without its buffers, which are in `buffers`."""
        try:
            self.dump(value)
            return self.file.getvalue()
        finally:
            self.file.seek(0)
            self.file.truncate()
            self.clear_memo()


def _keep_in_band(
    buffers: list[Any], place: Callable[[memoryview], Any], buffer: pickle.PickleBuffer
) -> bool:
    """Add a buffer that is, or shall be, in shared memory; return True for one that stays in the pickle."""
    try:
        raw = buffer.raw()
    except BufferError:  # not contiguous
        return True
    placed = _core.tensor_over_buffer(raw)
    if placed is None:
        placed = place(raw)
        if placed is None:
            return True
    buffers.append(placed)
    return False


class _Kept(threading.local):
    pickler: MessagePickler | None = None


class ByNamePickler(MessagePickler):
    """The pickler of messages whose functions and classes go by name, also where others go by value."""

    @property
    def reducer_override(self) -> Any:
        raise AttributeError  # so that pickle does not call it for each object


def dumps_by(
    new: Callable[[], MessagePickler], note: Callable[[int], None] | None = None
) -> Callable[[object], bytes]:
    """Return a function that pickles messages, with one pickler for each thread, and notes their sizes."""
    kept = _Kept()

    def dumps(value: object) -> bytes:
        pickler, kept.pickler = kept.pickler or new(), None  # a reducer may put a message, too
        content = pickler.dumps(value)
        kept.pickler = pickler  # after an exception, perhaps that of a signal handler, its memo may be full
        if note is not None:
            note(pickler.nbytes)
        return content

    return dumps


dumps = dumps_by(MessagePickler)
dumps_for_many = dumps_by(partial(MessagePickler, _copy_for_many))  # several processes read the messages
dumps_shared = dumps_by(partial(MessagePickler, lambda _: None))  # private memory stays in the pickle


class WithBuffers:
    """A pickle whose buffers are in shared memory: unpickled, it is the value."""

    def __init__(self, stream: bytes, buffers: list[Storage | Tensor]) -> None:
        self._parts = stream, _by_block(buffers)

    def __reduce__(self) -> Any:
        return load_with_buffers, self._parts


_Pieces: TypeAlias = "tuple[Storage, list[tuple[int, int]]]"


def _by_block(buffers: list[Storage | Tensor]) -> list[Storage | Tensor | _Pieces]:
    """Replace buffers that follow one another in one block by the block and their places in it.

    A message then has one handle for all columns of a table, not one for each.
    """
    found: list[Any] = []
    for buffer in buffers:
        if isinstance(buffer, _core.TensorBase) and buffer.readonly == buffer.storage().readonly:
            block, place = buffer.storage(), (buffer.storage_offset(), buffer.nbytes)
            if found and isinstance(found[-1], tuple) and found[-1][0] is block:
                found[-1][1].append(place)
            else:
                found.append((block, [place]))
        else:
            found.append(buffer)
    return found


def load_with_buffers(stream: bytes, buffers: list[Storage | Tensor | _Pieces]) -> Any:
    """Return the value of a pickle; its arrays use the memory of the buffers.

    A storage is a copy, which a single reader may write; a tensor, or a piece of a block, is memory that both
    sides share, or that no process writes.
    """
    given: list[Any] = []
    for buffer in buffers:
        if isinstance(buffer, tuple):
            view = memoryview(buffer[0])
            given += [view[first : first + nbytes] for first, nbytes in buffer[1]]
            continue
        if isinstance(buffer, _core.StorageBase):
            _core.mark_copy(buffer)
        given.append(buffer)
    return pickle.loads(stream, buffers=given)
