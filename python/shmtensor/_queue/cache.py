"""SharedCache: items that whichever process comes first builds for all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NoReturn, SupportsIndex, TypeAlias, TypeVar

import shmtensor._core as _core
from shmtensor._by_handle import SentByHandle
from shmtensor._queue.labels import label_or_place
from shmtensor._values import check_limit
from shmtensor.containers._writer import PICKLE, Writer

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import overload

Value = TypeVar("Value")
Built = TypeVar("Built")
_Key: TypeAlias = "str | SupportsIndex"
_MISSING: Any = object()


class SharedCache(SentByHandle, _core.CacheBase, Generic[Value]):
    """A mapping in shared memory that its processes fill: an item is built once for all of them.

    ``cache.get(key, build)`` returns the item of a key. If it is missing, one process calls `build`, and the
    others wait for it; if that process is killed, or `build` raises, another one builds. An item never
    changes: ``del cache[key]`` lets the next `get` build another one.

    Items are stored as those of a `SharedDict`: an array is a read-only view of the shared memory in each
    process; other objects are unpickled on each access. A torch tensor is writable, but its writes are
    private to the process. A key is stored as 128 bits of a keyed hash, so a cache cannot list its keys.

    If a limit is reached, items that were not used for the longest time go, of a sample of 32, but none
    whose memory a process holds. If no room can be made, `get` returns what `build` returned, and the item is
    not kept.

    Any process may use it, and it travels as a `Queue` does. A process may be killed at any time: the item
    that it was adding is added or not, and nothing else is lost.

    Parameters
    ----------
    max_bytes
        Limit of the bytes of all items; each counts 320 bytes and its shared memory. None: only that of
        `set_limit`, and of the machine's memory.
    label
        As for `Queue`.

    Raises
    ------
    ValueError
        If `max_bytes` is not above 0, or `label` too long.
    OutOfSharedMemory
        If there is not enough memory for an empty cache.

    See Also
    --------
    SharedDict : a mapping that is complete when it is made.
    shmtensor.once : one object, by name.

    Examples
    --------
    >>> import numpy as np
    >>> import shmtensor as st
    >>> cache = st.SharedCache(max_bytes=2**30)
    >>> cache.get("image 7", lambda: np.full((2, 2), 7))
    array([[7, 7],
           [7, 7]])
    >>> "image 7" in cache, len(cache)
    (True, 1)
    """

    __slots__ = ()
    __hash__ = object.__hash__

    def __init__(self, max_bytes: int | None = None, *, label: str | None = None) -> None:
        super().__init__(_core.new_cache_storage(check_limit(max_bytes, "max_bytes"), label_or_place(label)))

    if TYPE_CHECKING:

        @overload
        def get(self, key: _Key, build: None = None, wait: bool = True) -> Value | None: ...
        @overload
        def get(self, key: _Key, build: Callable[[], Built], wait: bool = True) -> Built: ...
        def get(self, key: _Key, build: Any = None, wait: bool = True) -> Any: ...

    def _keep(self, key: _Key, item: Any) -> bool:
        """Add an item that was built; called by `get`. Return False if there is no room."""
        return self._add(key, *Writer(PICKLE).take(item))

    def __getitem__(self, key: _Key) -> Value:
        item = self._find(key, _MISSING)
        if item is _MISSING:
            raise KeyError(key)
        return item  # type: ignore[no-any-return]

    if not TYPE_CHECKING:  # to a type checker, it is an error anyway

        def __setitem__(self, key: object, value: object) -> NoReturn:
            msg = "a SharedCache is filled by get(key, build)"
            raise TypeError(msg)

    def __delitem__(self, key: _Key) -> None:
        if not self._remove(key):
            raise KeyError(key)

    def __len__(self) -> int:
        return self.stats()["items"] or 0

    def set_limit(self, max_bytes: int | None) -> None:
        """Change `max_bytes`, for all processes, and let items go until the limit is kept.

        Raises
        ------
        ValueError
            If `max_bytes` is not above 0.
        """
        self._set_limit(check_limit(max_bytes, "max_bytes"))

    def __repr__(self) -> str:
        stats = self.stats()
        return f"<{type(self).__name__}: {stats['items']:,} items, {stats['bytes']:,} bytes>"
