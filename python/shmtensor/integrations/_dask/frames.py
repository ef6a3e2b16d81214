"""The frames of Dask's messages: large buffers, and those in shared memory, replaced by handles.

A message of Dask is a list of frames; buffers of arrays and data frames are frames of their own, and longer
ones are split into several. The handles are in one more frame at the end.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import shmtensor._core as _core
from shmtensor._copies import copy_of, private_view
from shmtensor._layout import address_of
from shmtensor._log import log_event
from shmtensor._threshold import is_large
from shmtensor.creation import zeros
from shmtensor.errors import OutOfSharedMemory
from shmtensor.integrations import _borrowing
from shmtensor.tensor import Tensor

if TYPE_CHECKING:
    import numpy.typing as npt

    from shmtensor.storage import Storage

    Bytes = npt.NDArray[np.uint8]


class Piece(NamedTuple):
    """Frames that follow one another in a message and in memory."""

    first: int  # the number of the first one
    sizes: tuple[int, ...]  # the bytes of each
    # A tensor: memory that both sides share. A storage: a copy, which each receiver sees as private memory.
    memory: Tensor | Storage


class Message(NamedTuple):
    """What the last frame of a message contains."""

    read: Tensor  # one element, which the receiver sets to True
    pieces: list[Piece]  # what was taken out of the other frames


def take_out(frames: list[Any]) -> Message | None:
    """Replace frames by empty ones; return what has their bytes, None if there is nothing to replace."""
    pieces = _find_pieces(frames)
    if not pieces:
        return None
    try:
        read = zeros(1, bool)
    except OutOfSharedMemory as error:
        log_event(f"Dask sends a message without shared memory: {error}")
        return None
    for first, sizes, _ in pieces:
        frames[first : first + len(sizes)] = [b""] * len(sizes)
    return Message(read, pieces)


def _find_pieces(frames: list[Any]) -> list[Piece]:
    pieces = []
    contents = [_bytes_of(frame) for frame in frames]
    first = 0
    while first < len(frames):
        last = first + 1
        content = contents[first]
        if content is not None:
            while last < len(frames) and _continues(frames, contents, last):
                last += 1
            sizes = tuple(part.nbytes for part in contents[first:last] if part is not None)
            if len(sizes) > 1:
                content = _extended(content, frames[first].obj, sum(sizes))
            memory = None if content is None else _in_shared_memory(content)
            if memory is not None:
                pieces.append(Piece(first, sizes, memory))
        first = last
    return pieces


def put_back(frames: list[Any], pieces: list[Piece]) -> None:
    """Replace empty frames by the memory of pieces."""
    for first, sizes, memory in pieces:
        view = memoryview(memory) if isinstance(memory, Tensor) else private_view(memory)
        end = 0
        for number, size in enumerate(sizes, first):
            frames[number] = view[end : end + size]
            end += size


def dump_message(message: Message) -> bytes:
    """Return the last frame. Its handles have no tickets and keep nothing allocated."""
    # As plain tuples, since the names of the classes would be as long as all else.
    return _borrowing.dumps((message.read, [tuple(piece) for piece in message.pieces]))


def load_message(frame: Any) -> Message:
    """Return the argument of `dump_message`; StaleHandleError if the sender has released a block."""
    read, pieces = _borrowing.loads(frame)
    return Message(read, [Piece(*piece) for piece in pieces])


def _bytes_of(frame: Any) -> Bytes | None:
    try:
        raw = pickle.PickleBuffer(frame).raw()
    except BufferError:  # not contiguous
        return None
    return np.frombuffer(raw, np.uint8) if raw.nbytes else None


def _continues(frames: list[Any], contents: list[Bytes | None], number: int) -> bool:
    """Return True if a frame is the continuation of the one before, in the same object."""
    before, after = contents[number - 1], contents[number]
    return (
        before is not None
        and after is not None
        and isinstance(frames[number], memoryview)
        and isinstance(frames[number - 1], memoryview)
        and frames[number].obj is frames[number - 1].obj
        and address_of(before) + before.nbytes == address_of(after)
    )


def _extended(start: Bytes, whole: Any, nbytes: int) -> Bytes | None:
    """Return the bytes of an object from `start`, a part of them, on."""
    content = _bytes_of(whole)
    if content is None:
        return None
    first = address_of(start) - address_of(content)
    return content[first : first + nbytes]


def _in_shared_memory(content: Bytes) -> Tensor | Storage | None:
    shared = _core.tensor_over_buffer(content.data)
    if shared is not None and shared.storage().filename is None:  # another container may not have the file
        return shared
    if not is_large(content.nbytes):
        return None
    try:
        return copy_of(content)
    except OutOfSharedMemory as error:
        log_event(f"Dask sends {content.nbytes} bytes without shared memory: {error}")
        return None
