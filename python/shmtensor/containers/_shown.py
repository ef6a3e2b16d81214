"""What a notebook shows of a container: its size, its place, and the first items."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import shmtensor._core as _core
from shmtensor._html import MOST_BYTES, place, short, size, table
from shmtensor._values import human_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

_ITEMS = 5


def html_of(kind: str, items: _core.ItemsBase, length: int, keys: Iterable[tuple[object, int]]) -> str:
    """Return the HTML of a container with `length` items; `keys` are their keys and numbers."""
    pieces = items._pieces
    facts = [
        ("items", f"{length:,}"),
        ("memory", f"{size(items.nbytes)}, in {len(pieces)} {'block' if len(pieces) == 1 else 'blocks'}"),
        *place(_core.place_of(pieces[0])),
    ]
    lines = [f"{short(key)}: {_text(items, number)}" for key, number in islice(keys, _ITEMS)]
    return table(kind, facts, "\n".join([*lines, "..."] if length > _ITEMS else lines))


def _text(items: _core.ItemsBase, number: int) -> str:
    try:
        copied = items._copied_bytes(number)
        return f"({human_bytes(copied)})" if copied > MOST_BYTES else short(items[number])
    except Exception as error:  # of the item's class, or the memory was damaged
        return short(error)
