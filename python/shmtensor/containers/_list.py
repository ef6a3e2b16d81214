"""SharedList: a read-only list of any items, stored once in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

import shmtensor._core as _core
from shmtensor._progress import ProgressLine
from shmtensor._values import human_bytes
from shmtensor.containers._unchanging import Unchanging
from shmtensor.containers._writer import BYTES, PICKLE, TEXT, Writer
from shmtensor.creation import asarray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy.typing as npt

    from shmtensor.storage import Storage
    from shmtensor.tensor import Tensor

    _Positions = slice | Sequence[int] | npt.NDArray[Any] | Tensor

Item = TypeVar("Item")


class SharedList(Unchanging, _core.ItemsBase, Sequence[Item]):
    """A read-only list whose items are stored in shared memory, serialized once.

    All processes share the same bytes; an item is deserialized on each access, as by `pickle.loads`. NumPy
    arrays in an item are read-only views of the shared memory; the rest of the item is private to the caller.

    Parameters
    ----------
    iterable
        The items, any objects that can be pickled. The iterable is consumed lazily: besides the shared
        memory itself the build needs at most an eighth of it, and never more than 64 MiB and 8 bytes per
        item.
    progress
        Print build progress to standard error.

    Raises
    ------
    pickle.PicklingError
        If an item cannot be pickled; the text names it.
    OutOfSharedMemory
        If there is not enough memory; nothing stays allocated.

    Notes
    -----
    Sent through `multiprocessing`, a list is a handle of a few hundred bytes; receiving it reads no item.
    Plain `pickle` copies the bytes. Slices and selections (``items[10:20]``, ``items[permutation]``, a mask)
    are views: a SharedList over the same memory. Items are equal to the originals if pickling preserves
    equality; identity is not preserved, not even between two accesses.

    Unpickling can run any code, so receive lists only from programs that you trust, as with every message of
    `multiprocessing`.

    Examples
    --------
    >>> import shmtensor as st
    >>> records = st.SharedList({"id": i, "name": f"image {i}"} for i in range(1000))
    >>> len(records), records[-1]
    (1000, {'id': 999, 'name': 'image 999'})
    >>> records[::-2][0]["id"]
    999
    """

    __slots__ = ("__weakref__",)
    __hash__ = None  # type: ignore[assignment]  # as for a list

    def __new__(cls, iterable: Iterable[Item] = (), *, progress: bool = False) -> SharedList[Item]:
        return cls._written(PICKLE, iterable, progress)

    def __init_subclass__(cls) -> None:
        msg = "SharedList cannot be subclassed: the subclass would be lost when sent to another process"
        raise TypeError(msg)

    @classmethod
    def of_bytes(cls, iterable: Iterable[Any], *, progress: bool = False) -> SharedList[bytes]:
        """Return a list of bytes, stored without pickling.

        Parameters
        ----------
        iterable
            Bytes-like objects. Each access returns private `bytes`.
        progress
            As in the constructor.

        Raises
        ------
        TypeError
            If an item is not a bytes-like object.
        """
        return cls._written(BYTES, iterable, progress)

    @classmethod
    def of_strings(cls, iterable: Iterable[str], *, progress: bool = False) -> SharedList[str]:
        """Return a list of strings, stored as UTF-8 without pickling.

        Raises
        ------
        TypeError
            If an item is not a string.
        """
        return cls._written(TEXT, iterable, progress)

    @classmethod
    def _written(cls, kind: int, iterable: Iterable[Any], progress: bool) -> SharedList[Any]:
        writer = Writer(kind)
        shown = ProgressLine(progress, cls.__name__, "{:,} items, {:,.1f} MiB")
        writer.extend(iterable, shown)
        pieces = writer.finish()
        shown.end(len(writer), sum(piece.nbytes for piece in pieces) / 2**20)
        return cls._over(pieces)

    @classmethod
    def _over(cls, pieces: tuple[Storage, ...], *view: Any) -> SharedList[Any]:
        return _core.ItemsBase.__new__(cls, pieces, *view)

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, key: int, /) -> Item: ...
        @overload
        def __getitem__(self, key: _Positions, /) -> SharedList[Item]: ...
        def __getitem__(self, key: Any, /) -> Any: ...
        def __len__(self) -> int: ...

    def _select(self, key: Any) -> SharedList[Item]:
        """Return the view for a key that is not an integer; called by the extension."""
        first, step, length = self._range
        if isinstance(key, slice):
            begin, end, stride = key.indices(length)
            count = len(range(begin, end, stride))
            if count < 2:  # an unused stride may have any size
                begin, stride = (begin, 1) if count else (0, 1)
            return self._over(self._pieces, first + begin * step, step * stride, count, self._selection)
        selected = _as_positions(key, length)
        if self._selection is None:
            positions = first + selected * step
        else:
            positions = np.asarray(self._selection)[first + selected * step]
        shared = asarray(positions).as_readonly()
        return self._over(self._pieces, 0, 1, len(positions), shared)

    def __iter__(self) -> Iterator[Item]:
        """Return an iterator over the items, which are deserialized one after another."""
        get = super().__getitem__
        return (get(index) for index in range(len(self)))

    def __reversed__(self) -> Iterator[Item]:
        get = super().__getitem__
        return (get(index) for index in range(len(self) - 1, -1, -1))

    def __contains__(self, value: object) -> bool:
        return any(item is value or item == value for item in self)

    def index(self, value: object, start: int = 0, stop: int | None = None) -> int:
        """Return the first position of an item that equals `value`, as `list.index` does.

        Raises
        ------
        ValueError
            If there is no such item.
        """
        begin, end, _ = slice(start, stop).indices(len(self))
        for position in range(begin, end):
            if self[position] == value:
                return position
        msg = f"{value!r} is not in the list"
        raise ValueError(msg)

    def count(self, value: object) -> int:
        """Return the number of items that equal `value`."""
        return sum(1 for item in self if item == value)

    def __eq__(self, other: object) -> bool:
        """Compare with a list or another SharedList, item by item."""
        if not isinstance(other, (list, SharedList)):
            return NotImplemented
        if len(self) != len(other):
            return False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __repr__(self) -> str:
        length = len(self)
        whole = _core.ItemsBase.__new__(_core.ItemsBase, self._pieces)
        view = "" if length == len(whole) else f", a view of {len(whole):,}"
        kind = {BYTES: " of bytes", TEXT: " of strings"}.get(self._kind, "")
        return f"<SharedList{kind}: {length:,} items{view}, {human_bytes(self.nbytes)} shared>"

    def _repr_html_(self) -> str:
        from shmtensor.containers._shown import html_of

        return html_of("SharedList", self, len(self), ((number, number) for number in range(len(self))))

    def __reduce__(self) -> tuple[Callable[..., SharedList[Item]], tuple[Any, ...]]:
        return _rebuild, (self._pieces, self._range, self._selection)


def _rebuild(
    pieces: tuple[Storage, ...], view: tuple[int, int, int], selection: Tensor | None
) -> SharedList[Any]:
    return SharedList._over(pieces, *view, selection)


def _as_positions(key: Any, length: int) -> npt.NDArray[np.int64]:
    """Return the positions, from 0, that an index array or a mask selects."""
    array = np.asarray(key)
    if array.ndim != 1 or (array.dtype.kind not in "iub" and array.size):
        msg = f"indices must be integers, slices or one-dimensional integer or boolean arrays, not {key!r}"
        raise TypeError(msg)
    if array.dtype.kind == "b":
        if len(array) != length:
            msg = f"boolean index has length {len(array)}, expected {length}"
            raise IndexError(msg)
        return np.flatnonzero(array).astype(np.int64)
    positions = array.astype(np.int64)
    wrong = (positions < -length) | (positions >= length)
    if wrong.any():
        msg = f"index {positions[wrong][0]} is out of range for {length} items"
        raise IndexError(msg)
    positions[positions < 0] += length
    return positions
