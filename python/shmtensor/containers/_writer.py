"""Write items into shared memory, in one pass.

csrc/containers/item_table.hpp and key_table.hpp describe the format, and read it.
"""

from __future__ import annotations

import copyreg
import pickle
import sys
from array import array
from collections import ChainMap
from typing import TYPE_CHECKING, Any

import numpy as np

import shmtensor._core as _core
from shmtensor.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy.typing as npt

    from shmtensor._progress import ProgressLine

item_reducers: dict[type, Callable[[Any], Any]] = {}
"""Reducers of integrations, which give items out-of-band buffers that their classes' own pickles lack."""

PICKLE, BYTES, TEXT = range(3)  # as in csrc/bindings/containers/item_sequence.cpp
BUFFERED, NESTED, ARRAY = 1 << 62, 2 << 62, 3 << 62  # the form of an item, in its entry

_MAGIC = 0x32736D6574697473
_HEAD = 32
_ALIGNMENT = 64
_OFFSET = (1 << 40) - 1

# Items are collected in private memory, and copied into a block of their exact size when they reach an eighth
# of the bytes that are written already, within these limits. So at most an eighth is stored twice, and never
# more than 64 MiB.
_SMALLEST, _LARGEST = 4 << 20, 64 << 20
_STEP = 1 << 20  # items between two checks of the size

_ENCODE: dict[int, Callable[[Any], Any]] = {
    BYTES: lambda item: view if (view := memoryview(item)).c_contiguous else view.tobytes(),
    TEXT: lambda text: text.encode("utf-8", "surrogatepass"),
}
_KINDS = {BYTES: "bytes-like object", TEXT: "str"}


class Writer:
    """A writer of items into shared memory."""

    def __init__(self, kind: int) -> None:
        self._kind = kind
        self._packer = _core.Packer(
            ChainMap(item_reducers, copyreg.dispatch_table) if item_reducers else None
        )
        self._entries = self._packer.entries
        self._staged = self._packer.staged
        self._pieces: list[Storage] = []
        self._written = 0
        self._first_staged = 0
        self._limit = _SMALLEST
        self._types: dict[np.dtype[Any], bytes] = {}

    def __len__(self) -> int:
        return len(self._entries) // 8

    @property
    def nbytes(self) -> int:
        """Bytes of all items so far."""
        return self._written + len(self._staged)

    def extend(self, items: Iterable[Any], progress: ProgressLine) -> None:
        """Add items one by one, each serialized once."""
        if self._kind != PICKLE:
            self._extend_encoded(items, progress)
            return
        iterator = iter(items)
        step = progress.step or _STEP
        while True:
            more = self._pack(iterator, step)
            if len(self._staged) >= self._limit:
                self._flush()
            if progress.step:
                progress.at(len(self), self.nbytes / 2**20)
            if not more:
                return

    def _pack(self, iterator: Iterator[Any], count: int) -> bool:
        """Add up to `count` items; return False at the end of the iterator."""
        try:
            found = self._packer.pack(iterator, self._base(), self._limit, count)
        except Exception as error:
            if self._packer.failed is not None:  # otherwise the iterable raised the error
                raise _cannot(len(self), self._packer.failed, error) from error
            raise
        if isinstance(found, tuple):
            self._add_special(*found)
        return found is not None

    def _add_special(self, item: Any, data: bytes | None) -> None:
        if data is not None:
            self._add_buffered(data)
        elif item.dtype.hasobject or item.dtype.itemsize == 0:
            data = pickle.dumps(item, 5)
            self._note(0)
            self._staged += data
        else:
            self._add_array(item)

    def _note(self, form: int) -> None:
        """Add the entry of an item that begins at the current position."""
        self._entries += (self._base() | len(self._staged) | form).to_bytes(8, "little")

    def _extend_encoded(self, items: Iterable[Any], progress: ProgressLine) -> None:
        encode = _ENCODE[self._kind]
        for item in items:
            try:
                data = encode(item)
            except Exception as error:
                msg = f"item {len(self)} is not a {_KINDS[self._kind]}: {_shortened(item)}"
                raise TypeError(msg) from error
            self._note(0)
            self._staged += data
            if len(self._staged) >= self._limit:
                self._flush()
            if progress.step and len(self) % progress.step == 0:
                progress.at(len(self), self.nbytes / 2**20)

    def add(self, item: Any) -> int:
        """Add one item; return its number."""
        self._pack(iter((item,)), 1)
        return self._finish_one()

    def take(self, item: Any) -> tuple[int, bytearray]:
        """Return the form and the bytes of one item, of a writer that has no others."""
        self._limit = sys.maxsize
        self._pack(iter((item,)), 1)
        return int.from_bytes(self._entries, "little") >> 62, self._staged

    def add_nested(self, table: bytes) -> int:
        """Add a key table unchanged; return its number."""
        self._align()
        self._note(NESTED)
        self._staged += table
        return self._finish_one()

    def _finish_one(self) -> int:
        if len(self._staged) >= self._limit:
            self._flush()
        return len(self) - 1

    def _base(self) -> int:
        # The numbers of pieces begin with 1: piece 0, with the head, is written last.
        return (len(self._pieces) + 1) << 40

    def _align(self) -> None:
        self._staged += bytes(-len(self._staged) % _ALIGNMENT)

    def _add_buffered(self, data: bytes) -> None:
        self._align()
        start = len(self._staged)
        raw = [buffer.raw() for buffer in self._packer.buffers]
        self._packer.buffers.clear()
        at = 16 + 16 * len(raw) + len(data)
        head = array("Q", (len(raw), len(data)))
        for one in raw:
            at += -at % _ALIGNMENT
            head.extend((at, one.nbytes))
            at += one.nbytes
        self._note(BUFFERED)
        self._staged += head.tobytes()
        self._staged += data
        for one in raw:
            self._staged += bytes(-(len(self._staged) - start) % _ALIGNMENT)
            self._staged += one
            one.release()

    def _add_array(self, item: npt.NDArray[Any]) -> None:
        dtype = item.dtype
        written = self._types.get(dtype)
        if written is None or dtype.metadata:
            written = pickle.dumps(dtype, 5)
            if not dtype.metadata:  # a dtype without them is equal
                self._types[dtype] = written
        fortran = item.flags.f_contiguous and not item.flags.c_contiguous
        elements = np.ascontiguousarray(item.T if fortran else item).reshape(-1).view(np.uint8)
        at = 32 + 8 * item.ndim + len(written)
        at += -at % _ALIGNMENT
        self._align()
        start = len(self._staged)
        self._note(ARRAY)
        self._staged += array("Q", (item.ndim, fortran, len(written), at, *item.shape)).tobytes()
        self._staged += written
        self._staged += bytes(start + at - len(self._staged))
        self._staged += elements.data

    def _flush(self) -> None:
        piece = Storage(len(self._staged))
        memoryview(piece)[:] = self._staged
        self._pieces.append(_core.readonly_storage(piece))
        self._written += len(self._staged)
        self._staged.clear()
        self._first_staged = len(self)
        self._limit = max(_SMALLEST, min(_LARGEST, self._written // 8))

    def finish(self) -> tuple[Storage, ...]:
        """Write the head and the staged items; return all pieces, which are read-only."""
        entries = np.frombuffer(self._entries, np.uint64) if self._entries else np.zeros(0, np.uint64)
        sizes = array("Q", [0, *(piece.nbytes for piece in self._pieces)])
        items = _HEAD + 8 * len(sizes) + 8 * len(entries)
        items += -items % _ALIGNMENT
        sizes[0] = items + len(self._staged)
        first = Storage(sizes[0])
        head = np.frombuffer(memoryview(first), np.uint64, items // 8)
        head[-7:] = 0  # the gap before the items, at most
        start = _HEAD // 8 + len(sizes)
        head[:start] = (_MAGIC, self._kind, len(entries), len(sizes), *sizes)
        head[start : start + len(entries)] = entries
        staged = head[start + self._first_staged : start + len(entries)]
        forms = np.uint64(3 << 62)
        staged[:] = (staged & forms) | ((staged & np.uint64(_OFFSET)) + np.uint64(items))
        if self._staged:
            np.copyto(
                np.frombuffer(memoryview(first), np.uint8, offset=items),
                np.frombuffer(self._staged, np.uint8),
            )
        return (_core.readonly_storage(first), *self._pieces)


def _cannot(number: int, item: object, error: Exception) -> pickle.PicklingError:
    text = f"item {number} cannot be pickled, {_shortened(item)}: {type(error).__name__}: {error}"
    return pickle.PicklingError(text)


def _shortened(item: object) -> str:
    try:
        text = repr(item)
    except Exception:  # `__repr__` of a class may raise any exception
        text = "<an object whose repr fails>"
    return f"{type(item).__name__} {text if len(text) <= 100 else text[:97] + '...'}"
