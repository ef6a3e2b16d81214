"""Rates of queues, from what they had put and taken in the previous observation."""

from __future__ import annotations

import time
from typing import Any, NamedTuple


class _Counts(NamedTuple):
    put: int
    taken: int
    seconds: float  # of the monotonic clock


class Rates:
    """Messages per second since the previous observation of each queue."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, int, int], _Counts] = {}
        self._after: dict[tuple[str, int, int], _Counts] = {}

    def begin(self) -> None:
        """Begin another round of observations; queues that the last one had not are forgotten."""
        self._before, self._after = self._after, {}

    def of(self, session: str, queue: dict[str, Any]) -> tuple[str, str]:
        """Return the messages put and taken per second; empty texts in the first observation.

        A broadcast takes a message when its slowest reader does. A block is another queue if it has put less.
        """
        key = session, queue["arena"], queue["block"]
        now = _Counts(queue["put"], queue["put"] - queue["messages"], time.monotonic())
        self._after[key] = now
        before = self._before.get(key)
        if before is None or now.put < before.put or now.seconds <= before.seconds:
            return "", ""
        elapsed = now.seconds - before.seconds
        # Messages that a dead worker returned are unread again.
        return _per_second(now.put - before.put, elapsed), _per_second(
            max(now.taken - before.taken, 0), elapsed
        )


def _per_second(count: int, elapsed: float) -> str:
    rate = count / elapsed
    return f"{rate:,.0f}" if rate >= 10 or not count else f"{rate:.1f}"
