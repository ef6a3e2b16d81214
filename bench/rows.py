"""Rows that several cases make in the same way, and cases that measure several ways in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from bench.model import Case, Goal, Measure, Probe, Row, Samples, Summary
from bench.options import Options


def rows_of(
    samples: Samples,
    variants: Iterable[str],
    peers: Iterable[str],
    key: str,
    *,
    base: str | None = None,
    unit: str = "us",
    scale: float = 1e6,
    goals: Mapping[str, Goal] | None = None,
) -> list[Row]:
    """Return a row for each variant and peer that was measured, with the 99th percentile if there is one.

    `base` is what the ratio is relative to, `goals` are shmtensor's by variant.
    """
    rows = []
    for variant in variants:
        for peer in peers:
            if not samples.has(peer, variant):
                continue
            ratio = None if base is None else Summary.of(samples.ratios(peer, variant, key, base)).median
            goal = (goals or {}).get(variant) if peer == "shmtensor" else None
            times = Summary.of(samples.values(peer, variant, key), scale)
            rows.append(Row(variant, peer, unit, times, ratio, goal, samples.p99(peer, variant, key, scale)))
    return rows


def rows_beside_bytes(
    samples: Samples, variants: list[str], peers: Sequence[str], unit: str = "us", goal: Goal | None = None
) -> list[Row]:
    """Return a row for each measurement of a tensor, relative to 64 bytes; the goal is shmtensor's."""
    goals = dict.fromkeys(variants, goal) if goal else None
    return rows_of(samples, variants, peers, "tensor", base="bytes", unit=unit, goals=goals)


def case_of_ways(
    name: str,
    *,
    summary: str,
    units: Mapping[str, tuple[str, float]],
    ways: Callable[[str], Iterable[str]],
    measure: Callable[[str, str, Options], float | Measure],
    base: Callable[[str], str],
    goal: Callable[[str, str], Goal | None],
    baseline: str,
    rounds: int,
) -> Case:
    """Return a case in which one process measures several ways to do the same.

    Parameters
    ----------
    units
        The unit of each variant, and how many of them are one second.
    ways
        Returns the ways that are measured for a variant.
    measure
        Returns the seconds of a variant done in a way; or a dict with them as "" and, as " p99", the 99th
        percentile.
    base, goal
        Return the way of a variant to which its ratios are, and the goal of one way.
    """

    @contextmanager
    def probe(_peer: str, options: Options) -> Iterator[Probe]:
        def measure_all(variant: str) -> Measure:
            measured: Measure = {}
            for way in ways(variant):
                found = measure(variant, way, options)
                parts = found if isinstance(found, dict) else {"": found}
                measured |= {f"{way}{part}": value for part, value in parts.items()}
            return measured

        yield measure_all

    def rows(samples: Samples) -> list[Row]:
        made = []
        for variant, (unit, scale) in units.items():
            for way in ways(variant) if samples.has("shmtensor", variant) else ():
                times = Summary.of(samples.values("shmtensor", variant, way), scale)
                ratio = Summary.of(samples.ratios("shmtensor", variant, way, base(variant))).median
                p99 = samples.p99("shmtensor", variant, way, scale)
                made.append(Row(variant, way, unit, times, ratio, goal(variant, way), p99))
        return made

    return Case(
        name=name,
        summary=summary,
        peers=("shmtensor",),
        variants=lambda _peer, _options: list(units),
        probe=probe,
        rows=rows,
        baseline=baseline,
        rounds=rounds,
    )
