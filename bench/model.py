"""The model of a benchmark: a case, its samples, and the rows of its table."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any, Literal

from bench.options import Options

Measure = dict[str, float]
"""The result of one measurement: seconds, bytes or counts, by name."""

Probe = Callable[[str], Measure]
"""Measures one variant once."""


class Samples:
    """All measurements of one case."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str], list[Measure]] = {}

    def add(self, peer: str, variant: str, measure: Measure) -> None:
        self._of.setdefault((peer, variant), []).append(measure)

    def has(self, peer: str, variant: str) -> bool:
        return (peer, variant) in self._of

    def all(self, peer: str, variant: str) -> list[Measure]:
        return self._of[peer, variant]

    def values(self, peer: str, variant: str, key: str) -> list[float]:
        return [measure[key] for measure in self._of[peer, variant]]

    def ratios(self, peer: str, variant: str, key: str, base: str) -> list[float]:
        """Return one ratio per round, so that a slow round does not distort it."""
        return [measure[key] / measure[base] for measure in self._of[peer, variant]]

    def p99(self, peer: str, variant: str, key: str, scale: float) -> float | None:
        """Return the median of the 99th percentiles of the rounds; None if they were not measured."""
        slow = [measure[f"{key} p99"] for measure in self._of[peer, variant] if f"{key} p99" in measure]
        return Summary.of(slow, scale).median if slow else None

    def to_json(self) -> list[dict[str, object]]:
        return [
            {"peer": peer, "variant": variant, "measures": measures}
            for (peer, variant), measures in self._of.items()
        ]


@dataclass(frozen=True)
class Summary:
    """Median, extremes and spread of some numbers."""

    median: float
    least: float
    most: float
    spread: float  # interquartile range, relative to the median
    count: int

    @classmethod
    def of(cls, values: list[float], scale: float = 1.0) -> Summary:
        scaled = [value * scale for value in values]
        median = statistics.median(scaled)
        if len(scaled) > 1:
            low, _, high = statistics.quantiles(scaled, n=4, method="inclusive")
        else:
            low = high = scaled[0]
        spread = (high - low) / median if median else 0.0
        return cls(median, min(scaled), max(scaled), spread, len(scaled))


@dataclass(frozen=True)
class Goal:
    """The limit of a figure: an upper bound, or a lower one (`at_least`)."""

    limit: float
    of: Literal["median", "most", "ratio"] = "median"
    at_least: bool = False

    def __str__(self) -> str:
        name = {"median": "", "most": "worst ", "ratio": "ratio "}[self.of]
        return f"{name}{'>=' if self.at_least else '<='} {self.limit:g}"


@dataclass(frozen=True)
class Row:
    """One line of a result table.

    `ratio` is relative to the case's `baseline`, `p99` the median over rounds of a round's 99th percentile.
    """

    what: str
    peer: str
    unit: str
    summary: Summary
    ratio: float | None = None
    goal: Goal | None = None
    p99: float | None = None

    @property
    def met(self) -> bool | None:
        """True if the goal is met; None without a goal."""
        if self.goal is None:
            return None
        value = self.ratio if self.goal.of == "ratio" else getattr(self.summary, self.goal.of)
        return value >= self.goal.limit if self.goal.at_least else value <= self.goal.limit

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"goal": str(self.goal or ""), "met": self.met}


@dataclass(frozen=True)
class Case:
    """A benchmark."""

    name: str
    summary: str
    peers: tuple[str, ...]
    variants: Callable[[str, Options], list[str]]  # of a peer; one without any does not take part
    # Called in a separate process for each peer; within the context, each call measures a variant.
    probe: Callable[[str, Options], AbstractContextManager[Probe]]
    rows: Callable[[Samples], list[Row]]  # of the table, without what was not measured
    baseline: str = ""  # the reference of the table's column of ratios
    rounds: int = 15
    warm_up: int = 1
    timeout: float = 120.0  # seconds that one measurement may take
