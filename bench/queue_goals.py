"""The goals of the queue and the broadcast, which are about several rows or peers together.

Each figure is computed from the rows of stored results. A case that was not measured has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.kept import Record, row_of
from bench.model import Goal
from bench.report import number

__all__ = ["CASES", "GOALS", "QueueGoal"]

CASES = ("queue", "wakeup", "broadcast")
OURS = "shmtensor-queue"  # st.Queue
TRIPS = ("64 bytes", "1 KiB tensor", "8 MiB tensor")

Figure = Callable[[Record], float | None]


def _median(result: Record, what: str, peer: str = OURS) -> float | None:
    row = row_of(result, what, peer)
    return None if row is None else row["summary"]["median"]


def _of(what: str) -> Figure:
    return lambda result: _median(result, what)


def _all(values: list[float | None], choose: Callable[[list[float]], float]) -> float | None:
    """Return one of the values; None if one of them was not measured."""
    known = [value for value in values if value is not None]
    return choose(known) if len(known) == len(values) else None


def _longest(result: Record) -> float | None:
    return _all([_median(result, what) for what in TRIPS], max)


def _p99(result: Record) -> float | None:
    rows = [row_of(result, what, OURS) for what in TRIPS]
    return _all([None if row is None else row["p99"] for row in rows], max)


def _times(peer: str, whats: tuple[str, ...]) -> Figure:
    """Return the least ratio of a peer's times to those of the queue."""

    def figure(result: Record) -> float | None:
        pairs = [(_median(result, what, peer), _median(result, what)) for what in whats]
        return _all([theirs / ours if theirs and ours else None for theirs, ours in pairs], min)

    return figure


def _rate(result: Record) -> float | None:
    each = _median(result, "small ints")
    return None if each is None else 1 / each  # microseconds each, million in a second


def _ratio(peer: str, *whats: str) -> Figure:
    """Return the greatest of some ratios to the case's baseline."""

    def figure(result: Record) -> float | None:
        rows = [row_of(result, what, peer) for what in whats]
        return _all([None if row is None else row["ratio"] for row in rows], max)

    return figure


@dataclass(frozen=True)
class QueueGoal:
    """A line of the table of goals."""

    what: str
    case: str
    figure: Figure
    goal: Goal
    unit: str

    def measured(self, results: Mapping[str, Record]) -> tuple[str, bool] | None:
        """Return the figure as text, and True if it meets the goal; None if it was not measured."""
        result = results.get(self.case)
        value = None if result is None else self.figure(result)
        if value is None:
            return None
        met = value >= self.goal.limit if self.goal.at_least else value <= self.goal.limit
        return number(value), met


GOALS = (
    QueueGoal("round trip of 64 bytes, of a tensor; the longest", "queue", _longest, Goal(3), "us"),
    QueueGoal("the same, 99th percentile", "queue", _p99, Goal(20), "us"),
    QueueGoal(
        "round trips of SimpleQueue relative to it; the least",
        "queue",
        _times("pickle", TRIPS),
        Goal(20, at_least=True),
        "times",
    ),
    QueueGoal(
        "round trips of torch's default with a tensor relative to it; the least",
        "queue",
        _times("torch-fd", TRIPS[1:]),
        Goal(100, at_least=True),
        "times",
    ),
    QueueGoal(
        "round trip to a process that sleeps, relative to futexes in C",
        "wakeup",
        _ratio(OURS, "64 bytes, asleep", "1 KiB tensor, asleep"),
        Goal(1.1),
        "times",
    ),
    QueueGoal(
        "round trip on one processor, relative to futexes in C",
        "wakeup",
        _ratio(OURS, "64 bytes, one processor", "1 KiB tensor, one processor"),
        Goal(1.5),
        "times",
    ),
    QueueGoal("small ints, one producer, one consumer", "queue", _rate, Goal(2, at_least=True), "million/s"),
    QueueGoal("round trip of a list of 100 tensors", "queue", _of("list of 100 tensors"), Goal(60), "us"),
    QueueGoal("idle consumer", "queue", _of("waiting, idle"), Goal(0), "% of a processor"),
    QueueGoal(
        "consumer of a message each millisecond",
        "queue",
        _of("waiting, one per ms"),
        Goal(3),
        "% of a processor",
    ),
    QueueGoal(
        "1 MiB to 4 readers, processor time relative to one hand-over; the greatest",
        "broadcast",
        _ratio(
            "shmtensor",
            "to 4, as fast as possible: processor time",
            "to 4, one per ms: processor time",
        ),
        Goal(5),
        "times",
    ),
)
