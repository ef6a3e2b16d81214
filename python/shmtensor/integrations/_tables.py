"""The reducers that integrations register, with the picklers of `multiprocessing` and of other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shmtensor import _array_reducers
from shmtensor._reducer_tables import FORKING
from shmtensor._reducer_tables import MESSAGES as OUT_OF_BAND

if TYPE_CHECKING:
    from collections.abc import Callable

    Reducer = Callable[[Any], Any]

REDUCERS: dict[type, Reducer] = dict(_array_reducers.REDUCERS)
"""Those for picklers without the table of `multiprocessing`: our tensors, and what integrations register."""

_followers: list[dict[type, Any]] = []  # tables of other libraries, with the same reducers


def follow(table: dict[type, Any]) -> None:
    """Let the table of a library have all reducers, from now on."""
    table.update(REDUCERS)
    _followers.append(table)


def unfollow(table: dict[type, Any]) -> None:
    """Remove the reducers from the table of a library."""
    _followers[:] = [other for other in _followers if other is not table]
    for kind in REDUCERS:
        table.pop(kind, None)


class ReducerTable:
    """The reducers that one integration has registered."""

    def __init__(self) -> None:
        self._before: list[tuple[dict[type, Any], type, Reducer | None]] = []

    def register(self, kind: type, reducer: Reducer, elsewhere: Reducer | None = None) -> None:
        """Register a reducer for all picklers; another one `elsewhere` than in `multiprocessing`."""
        self._set(FORKING, kind, reducer)
        self._set(REDUCERS, kind, elsewhere or reducer)

    def register_out_of_band(self, kind: type, reducer: Reducer) -> None:
        """Register another one for messages, whose pickler takes out-of-band buffers."""
        self._set(OUT_OF_BAND, kind, reducer)

    def clear(self) -> None:
        """Restore what was registered before."""
        while self._before:
            self._put(*self._before.pop())

    def _set(self, table: dict[type, Any], kind: type, reducer: Reducer) -> None:
        self._before.append((table, kind, table.get(kind)))
        self._put(table, kind, reducer)

    @staticmethod
    def _put(table: dict[type, Any], kind: type, reducer: Reducer | None) -> None:
        for target in (table, *(_followers if table is REDUCERS else ())):
            if reducer is None:
                target.pop(kind, None)
            else:
                target[kind] = reducer
