"""Rows that several cases make in the same way."""

from __future__ import annotations

from collections.abc import Sequence

from bench.model import Goal, Row, Samples, Summary

__all__ = ["rows_beside_bytes", "rows_many_beside_few"]


def rows_beside_bytes(
    samples: Samples, variants: list[str], peers: Sequence[str], unit: str = "us", goal: Goal | None = None
) -> list[Row]:
    """Return a row for each measurement of a tensor, relative to 64 bytes; the goal is shmtensor's."""
    rows = []
    for variant in variants:
        for peer in peers:
            if samples.has(peer, variant):
                times = Summary.of(samples.values(peer, variant, "tensor"), 1e6)
                ratio = Summary.of(samples.ratios(peer, variant, "tensor", "bytes")).median
                slow = [one["tensor p99"] for one in samples.all(peer, variant) if "tensor p99" in one]
                p99 = Summary.of(slow, 1e6).median if slow else None
                rows.append(
                    Row(variant, peer, unit, times, ratio, goal if peer == "shmtensor" else None, p99)
                )
    return rows


def rows_many_beside_few(
    samples: Samples, few: str, many: str, peers: Sequence[str], goal: Goal
) -> list[Row]:
    """Return two rows for each peer, to compare a send alone and among many; the goal is shmtensor's."""
    rows = []
    for peer in peers:
        if samples.has(peer, many):
            alone, crowded = (samples.values(peer, variant, "send") for variant in (few, many))
            ratio = Summary.of([many / few for many, few in zip(crowded, alone, strict=True)]).median
            rows.append(Row(few, peer, "us", Summary.of(alone, 1e6)))
            rows.append(
                Row(many, peer, "us", Summary.of(crowded, 1e6), ratio, goal if peer == "shmtensor" else None)
            )
    return rows
