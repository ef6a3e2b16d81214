"""Reading from queues with a deadline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def take(queue: Any, timeout: float = 60.0) -> Any:
    """Return the next object; raise if none arrives in time. `SimpleQueue.get` has no timeout."""
    if not queue._reader.poll(timeout):
        raise AssertionError(f"no message within {timeout} s")
    return queue.get()


def until_none(queue: Any) -> Iterator[Any]:
    """Yield objects up to the first None (`iter(queue.get, None)` would compare tensors with it)."""
    while (item := queue.get()) is not None:
        yield item
