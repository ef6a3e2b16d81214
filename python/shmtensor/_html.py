"""What a notebook shows of an object: a table of facts, and a few values.

No colour is set, so that the text has those of the notebook's theme, light or dark.
"""

from __future__ import annotations

import html
import reprlib
from typing import TYPE_CHECKING

from shmtensor._values import human_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_BYTES = 1 << 16  # of an element or item that is read in order to be shown
_LEFT = ' style="text-align: left"'


def table(title: str, facts: Iterable[tuple[str, object]], values: str = "") -> str:
    """Return facts, and text in which lines and columns stay, as HTML. Both are escaped here."""
    rows = "".join(
        f"<tr><th{_LEFT}>{html.escape(name)}</th><td{_LEFT}>{html.escape(str(fact))}</td></tr>"
        for name, fact in facts
    )
    body = f"<pre>{html.escape(values)}</pre>" if values else ""
    return f"<div><strong>{html.escape(title)}</strong><table><tbody>{rows}</tbody></table>{body}</div>"


def size(nbytes: int) -> str:
    """Return a size for people, with the exact number of bytes."""
    return human_bytes(nbytes) if nbytes < 1024 else f"{human_bytes(nbytes)} ({nbytes:,} bytes)"


def place(found: tuple[str, int, int, int] | None) -> list[tuple[str, object]]:
    """Return the facts about a block, from `_core.place_of`."""
    if found is None:
        return []
    strategy, arena, block, processes = found
    return [("strategy", strategy), ("arena/block", f"{arena}/{block}"), ("processes", processes)]


def short(value: object) -> str:
    """Return the beginning of the representation of an object; it may be one that raises."""
    shown = reprlib.Repr()
    shown.maxstring = shown.maxother = 200
    return shown.repr(value)
