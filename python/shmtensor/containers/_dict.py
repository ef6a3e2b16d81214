"""SharedDict: a read-only mapping, stored once in shared memory."""

from __future__ import annotations

from collections.abc import ItemsView, KeysView, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, TypeVar

import shmtensor._core as _core
from shmtensor._progress import ProgressLine
from shmtensor._values import human_bytes
from shmtensor.containers._unchanging import Unchanging
from shmtensor.containers._writer import PICKLE, Writer
from shmtensor.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from shmtensor.storage import Storage

Value = TypeVar("Value")


class _Values(_core.ItemsBase):
    """The values of a dict and of its nested dicts; the last item is the key table of the outermost dict."""

    __slots__ = ()

    def _nested(self, keys: memoryview, number: int) -> SharedDict[Any]:
        """Return the dict of a key table; called by the extension."""
        made: SharedDict[Any] = object.__new__(SharedDict)
        made._values = self
        made._keys = _core.Keys(keys)
        made._number = number
        return made

    def _select(self, key: object) -> Any:
        msg = f"indices must be integers: {key!r}"
        raise TypeError(msg)


class SharedDict(Unchanging, Mapping[Any, Value]):
    """A read-only mapping in shared memory, with string or integer keys.

    A key is looked up in the shared memory itself, in constant time: no process builds a Python dict. A
    value is deserialized on each access, like an item of a `SharedList`: NumPy arrays are read-only views of
    the shared memory.

    Parameters
    ----------
    mapping
        A mapping, or an iterable of pairs, which is consumed lazily. Keys are strings and integers of 64
        bits; values are any objects that can be pickled.
    nested
        True: a value that is a `dict` with such keys becomes a SharedDict too, in the same memory, whose
        values are deserialized one by one. False: it is pickled as a whole and returned as a `dict`.
    progress
        Print build progress to standard error.

    Raises
    ------
    TypeError
        If a key is neither a string nor an integer of 64 bits.
    ValueError
        If a key is duplicate.
    pickle.PicklingError
        If a value cannot be pickled.
    OutOfSharedMemory
        If there is not enough memory; nothing stays allocated.

    See Also
    --------
    SharedList : describes what is shared, what is copied and how it is sent.

    Notes
    -----
    Keys are in the order of insertion. Iteration creates new strings and plain integers.

    Examples
    --------
    >>> import numpy as np
    >>> import shmtensor as st
    >>> state = st.SharedDict({"layer": {"weight": np.ones((2, 2)), "bias": np.zeros(2)}, "step": 7})
    >>> state["step"], state["layer"]["weight"].sum()
    (7, 4.0)
    """

    __slots__ = ("__weakref__", "_keys", "_number", "_values")
    __hash__ = None  # type: ignore[assignment]  # as a dict
    _keys: _core.Keys
    _number: int
    _values: _Values

    def __new__(
        cls,
        mapping: Mapping[Any, Value] | Iterable[tuple[Any, Value]] = (),
        *,
        nested: bool = True,
        progress: bool = False,
    ) -> SharedDict[Value]:
        writer = Writer(PICKLE)
        shown = ProgressLine(progress, cls.__name__, "{:,} items, {:,.1f} MiB")
        pairs = mapping.items() if isinstance(mapping, Mapping) else mapping
        table = _write(writer, pairs, nested, shown)
        number = writer.add_nested(table)
        pieces = writer.finish()
        shown.end(len(writer), sum(piece.nbytes for piece in pieces) / 2**20)
        return _rebuild(pieces, number)

    def __init_subclass__(cls) -> None:
        msg = "SharedDict cannot be subclassed: the subclass would be lost when sent to another process"
        raise TypeError(msg)

    def __getitem__(self, key: object) -> Value:
        number = self._find(key)
        if number is None:
            raise KeyError(key)
        value: Value = self._values[number]
        return value

    def get(self, key: object, default: Any = None) -> Any:
        """Return the value of a key, or `default` if it is not there."""
        number = self._find(key)
        return default if number is None else self._values[number]

    def __contains__(self, key: object) -> bool:
        return self._find(key) is not None

    def _find(self, key: object) -> int | None:
        number = self._keys.find(key)
        if number is None:
            hash(key)  # raises TypeError for an unhashable key, as a dict does
        return number

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Any]:
        """Return an iterator over the keys, in order of insertion."""
        return (self._keys.at(place)[0] for place in range(len(self)))

    def __reversed__(self) -> Iterator[Any]:
        return (self._keys.at(place)[0] for place in range(len(self) - 1, -1, -1))

    def keys(self) -> KeysView[Any]:
        """Return a view of the keys, like `dict.keys`."""
        return KeysView(self)

    def values(self) -> ValuesView[Value]:
        """Return a view of the values, which are deserialized on each access."""
        return ValuesView(self)

    def items(self) -> ItemsView[Any, Value]:
        """Return a view of the pairs, whose values are deserialized on each access."""
        return ItemsView(self)

    @property
    def nbytes(self) -> int:
        """Bytes of shared memory of the outermost dict with all its values."""
        return self._values.nbytes

    def to_dict(self) -> dict[Any, Value]:
        """Return a private dict with all values; nested dicts are converted too, arrays stay views."""
        return {
            key: value.to_dict() if isinstance(value, SharedDict) else value  # type: ignore[misc]
            for key, value in self.items()
        }

    def __eq__(self, other: object) -> bool:
        """Compare with any mapping, key by key."""
        if not isinstance(other, Mapping):
            return NotImplemented
        if len(self) != len(other):
            return False
        missing = object()
        return all(other.get(key, missing) == value for key, value in self.items())

    def __repr__(self) -> str:
        return f"<SharedDict: {len(self):,} keys, {human_bytes(self.nbytes)} shared>"

    def _repr_html_(self) -> str:
        from shmtensor.containers._shown import html_of

        keys = map(self._keys.at, range(len(self)))
        return html_of("SharedDict", self._values, len(self), keys)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _rebuild, (self._values._pieces, self._number)


def _rebuild(pieces: tuple[Storage, ...], number: int) -> SharedDict[Any]:
    values = _Values(pieces)
    made = values[number] if number < len(values) else None
    if not isinstance(made, SharedDict):
        msg = (
            f"cannot read a shared dict: its item {number} is not a key table; the shared memory is corrupted"
        )
        raise CorruptDataError(msg)
    return made


def _write(
    writer: Writer,
    pairs: Iterable[tuple[Any, Any]],
    nested: bool,
    progress: ProgressLine,
    outer: tuple[int, ...] = (),
) -> bytes:
    """Write the values; return the key table."""
    table = _core.KeysBuilder()
    for key, value in pairs:
        if nested and type(value) is dict and id(value) not in outer and _has_valid_keys(value):
            inner = _write(writer, value.items(), True, progress, (*outer, id(value)))
            number = writer.add_nested(inner)
        else:
            number = writer.add(value)
        added = table.add(key, number)
        if added < 0:
            msg = f"a key must be a string or an integer of 64 bits, not {type(key).__name__} {key!r}"
            raise TypeError(msg)
        if added == 0:
            msg = f"duplicate key {key!r}"
            raise ValueError(msg)
        if progress.step and len(writer) % progress.step == 0:
            progress.at(len(writer), writer.nbytes / 2**20)
    return table.finish()


def _has_valid_keys(value: dict[Any, Any]) -> bool:
    """Return True if all keys can be written and read back unchanged."""
    table = _core.KeysBuilder()
    return all(type(key) in (str, int) and table.add(key, 0) == 1 for key in value)
