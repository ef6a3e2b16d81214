"""Reducers that integrations register with the picklers of `multiprocessing` and of messages."""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

from shmtensor._queue.pickling import REDUCERS

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ReducerTable"]

_table: dict[type, Any] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]


class ReducerTable:
    """The reducers that one integration has registered."""

    def __init__(self) -> None:
        self._registered: list[tuple[dict[type, Any], type]] = []

    def register(self, kind: type, reducer: Callable[[Any], Any]) -> None:
        """Register a reducer for all transports of `multiprocessing`."""
        self._add(_table, kind, reducer)

    def register_out_of_band(self, kind: type, reducer: Callable[[Any], Any]) -> None:
        """Register another one for messages, whose pickler takes out-of-band buffers."""
        self._add(REDUCERS, kind, reducer)

    def _add(self, table: dict[type, Any], kind: type, reducer: Callable[[Any], Any]) -> None:
        table[kind] = reducer
        self._registered.append((table, kind))

    def clear(self) -> None:
        """Remove them."""
        while self._registered:
            table, kind = self._registered.pop()
            table.pop(kind, None)
