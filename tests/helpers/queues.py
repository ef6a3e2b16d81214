"""Reading from queues without waiting for ever."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def take(queue: Any, timeout: float = 30.0) -> Any:
    """The next object; an error if none comes in time. A SimpleQueue cannot be asked so by itself."""
    if not queue._reader.poll(timeout):
        raise AssertionError(f"nothing came within {timeout} s")
    return queue.get()


def until_none(queue: Any) -> Iterator[Any]:
    """Objects up to the first None (`iter(queue.get, None)` would compare tensors with it)."""
    while (item := queue.get()) is not None:
        yield item
