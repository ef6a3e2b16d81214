"""SharedList: a list of any items, in shared memory once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

import shmtensor._core as _core
from shmtensor._values import human_bytes
from shmtensor.containers._progress import Progress
from shmtensor.containers._writer import BYTES, PICKLE, TEXT, Writer
from shmtensor.creation import asarray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy.typing as npt

    from shmtensor.storage import Storage
    from shmtensor.tensor import Tensor

    _Positions = slice | Sequence[int] | npt.NDArray[Any] | Tensor

__all__ = ["SharedList"]

Item = TypeVar("Item")


def __dir__() -> list[str]:
    return __all__


class SharedList(_core.ItemsBase, Sequence[Item]):
    """A read-only list whose items lie in shared memory, serialized once.

    Every process sees the same bytes; an item is made anew on each access, as `pickle.loads` makes it.
    NumPy arrays in an item come back as views of the shared memory that cannot be written through; what
    else the item holds is private to who asked for it.

    Parameters
    ----------
    iterable
        The items, anything that can be pickled. They are taken one by one, so a generator of millions
        never exists as a whole: besides the shared memory itself the build holds at most an eighth of it,
        and never more than 64 MiB and 8 bytes per item.
    progress
        Say on standard error how far the build is.

    Raises
    ------
    pickle.PicklingError
        If an item cannot be pickled; the text names it.
    OutOfSharedMemory
        If there is no memory; nothing stays allocated then.

    Notes
    -----
    Sent through `multiprocessing`, a list is a handle of a few hundred bytes, whose arrival touches no
    item. Plain `pickle` copies the bytes. Slices and selections (``items[10:20]``, ``items[permutation]``,
    a mask) are views: a SharedList over the same memory. Items are equal to those that were given if they
    survive pickling; identity is not kept, not even between two accesses.

    Unpickling runs what a pickle says, so take lists only from programs that you trust, as with every
    message of `multiprocessing`.

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
    __hash__ = None  # type: ignore[assignment]  # as a list

    def __new__(cls, iterable: Iterable[Item] = (), *, progress: bool = False) -> SharedList[Item]:
        return cls._written(PICKLE, iterable, progress)

    def __init_subclass__(cls) -> None:
        msg = "SharedList cannot be subclassed: what arrives in another process would be a plain one"
        raise TypeError(msg)

    @classmethod
    def of_bytes(cls, iterable: Iterable[Any], *, progress: bool = False) -> SharedList[bytes]:
        """Make a list of bytes, without pickling.

        Parameters
        ----------
        iterable
            Bytes-like objects. Each comes back as `bytes`, a private copy.
        progress
            As in the constructor.

        Raises
        ------
        TypeError
            If an item is no bytes-like object.
        """
        return cls._written(BYTES, iterable, progress)

    @classmethod
    def of_strings(cls, iterable: Iterable[str], *, progress: bool = False) -> SharedList[str]:
        """Make a list of strings, without pickling; they lie in memory as UTF-8.

        Raises
        ------
        TypeError
            If an item is no string.
        """
        return cls._written(TEXT, iterable, progress)

    @classmethod
    def _written(cls, kind: int, iterable: Iterable[Any], progress: bool) -> SharedList[Any]:
        writer = Writer(kind)
        shown = Progress(progress, cls.__name__)
        writer.extend(iterable, shown)
        pieces = writer.finish()
        shown.end(len(writer), sum(piece.nbytes for piece in pieces))
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
        """Make the view for a key that is no integer; called by the core."""
        first, step, length = self._range
        if isinstance(key, slice):
            begin, end, stride = key.indices(length)
            count = len(range(begin, end, stride))
            if count < 2:  # a stride that is never taken may be of any size
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
        """Make the items one after another."""
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
            If there is none.
        """
        begin, end, _ = slice(start, stop).indices(len(self))
        for position in range(begin, end):
            if self[position] == value:
                return position
        msg = f"{value!r} is not in the list"
        raise ValueError(msg)

    def count(self, value: object) -> int:
        """Return how many items equal `value`."""
        return sum(1 for item in self if item == value)

    def __eq__(self, other: object) -> bool:
        """Compare with a list, a tuple's kin or another SharedList, item by item."""
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

    def __reduce__(self) -> tuple[Callable[..., SharedList[Item]], tuple[Any, ...]]:
        return _rebuild, (self._pieces, self._range, self._selection)


def _rebuild(
    pieces: tuple[Storage, ...], view: tuple[int, int, int], selection: Tensor | None
) -> SharedList[Any]:
    return SharedList._over(pieces, *view, selection)


def _as_positions(key: Any, length: int) -> npt.NDArray[np.int64]:
    """Return what an index array or a mask selects, as positions from 0."""
    array = np.asarray(key)
    if array.ndim != 1 or (array.dtype.kind not in "iub" and array.size):
        msg = f"items are chosen by integers, slices and one-dimensional arrays of integers, not by {key!r}"
        raise TypeError(msg)
    if array.dtype.kind == "b":
        if len(array) != length:
            msg = f"a mask of {len(array)} does not fit {length} items"
            raise IndexError(msg)
        return np.flatnonzero(array).astype(np.int64)
    positions = array.astype(np.int64)
    wrong = (positions < -length) | (positions >= length)
    if wrong.any():
        msg = f"index {positions[wrong][0]} is out of range for {length} items"
        raise IndexError(msg)
    positions[positions < 0] += length
    return positions
