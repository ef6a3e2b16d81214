"""The reducers that picklers use which do not have the table of `multiprocessing`: those of other libraries.

They are the ones for tensors, and those that integrations add for the objects of their libraries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shmtensor import reducers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["REDUCERS", "add", "follow", "remove", "unfollow"]

REDUCERS: dict[type, Callable[[Any], Any]] = dict(reducers.REDUCERS)
_tables: list[dict[type, Any]] = []  # of other libraries, with the same reducers


def add(more: Mapping[type, Callable[[Any], Any]]) -> None:
    """Add reducers, also to the tables that follow."""
    for table in (REDUCERS, *_tables):
        table.update(more)


def remove(kinds: Iterable[type]) -> None:
    """Remove the reducers of some types."""
    for kind in kinds:
        for table in (REDUCERS, *_tables):
            table.pop(kind, None)


def follow(table: dict[type, Any]) -> None:
    """Let the table of a library have all these reducers, from now on."""
    table.update(REDUCERS)
    _tables.append(table)


def unfollow(table: dict[type, Any]) -> None:
    """Remove the reducers from the table of a library."""
    _tables[:] = [other for other in _tables if other is not table]
    for kind in REDUCERS:
        table.pop(kind, None)
