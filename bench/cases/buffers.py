"""Objects of NumPy arrays, as a program without tensors sends them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import shmtensor as st
from bench.consumer import consumer_process
from bench.model import Case, Goal, Measure, Probe, Row, Samples, Summary
from bench.options import Options
from bench.peers import load_peer
from bench.timing import per_call

COLUMNS = 10
TASKS = 64
SMALL = 1000  # messages
FRAME, RESULTS, NOTHING_LARGE = "frame of 100 MB", "results of 1 MB", "nothing large"
SHARED = "frame of 100 MB, shared before"  # pickle sends it as the first time
GOALS = {
    FRAME: Goal(0.1, "ratio"),
    SHARED: Goal(0.01, "ratio"),
    RESULTS: Goal(0.2, "ratio"),
    NOTHING_LARGE: Goal(1.05, "ratio"),
}


class Frame:
    """An object with columns, as a data frame is."""

    def __init__(self, nbytes: int) -> None:
        self.columns = [np.full(nbytes // COLUMNS // 8, 1.0) for _ in range(COLUMNS)]


def result(number: int) -> Any:
    """Return an array of 1 MB."""
    return np.full(1_000_000 // 8, float(number))


def _variants(_peer: str, options: Options) -> list[str]:
    return [NOTHING_LARGE] if options.quick else list(GOALS)


@contextmanager
def _probe(peer_name: str, options: Options) -> Iterator[Probe]:
    peer = load_peer(peer_name)
    context: Any = peer.context()
    frame = None if options.quick else Frame(100_000_000)
    shared = st.share(frame) if peer_name == "shmtensor" else frame
    small = {"name": "a message", "values": np.arange(10.0), "numbers": list(range(10))}
    with consumer_process(peer, options) as there, context.Pool(2) as pool:

        def measure(variant: str) -> Measure:
            if variant == RESULTS:
                return {"time": per_call(lambda _: pool.map(result, range(TASKS), 1), 1) / TASKS}
            message, count = {FRAME: (frame, 1), SHARED: (shared, 1)}.get(variant, (small, SMALL))

            def hand_over(times: int) -> None:
                for _ in range(times):
                    there.hand_over(message)

            return {"time": per_call(hand_over, count)}

        yield measure


def _rows(samples: Samples) -> list[Row]:
    rows = []
    for variant, goal in GOALS.items():
        for peer in CASE.peers:
            if not samples.has(peer, variant):
                continue
            times = samples.values(peer, variant, "time")
            ratio = None
            if samples.has("pickle", variant):
                base = samples.values("pickle", variant, "time")
                ratio = Summary.of([ours / theirs for ours, theirs in zip(times, base, strict=True)]).median
            mine = goal if peer == "shmtensor" and ratio is not None else None
            rows.append(Row(variant, peer, "us", Summary.of(times, 1e6), ratio, mine))
    return rows


CASE = Case(
    name="buffers",
    summary="objects of NumPy arrays: a message, results of Pool.map, a message with nothing large",
    peers=("shmtensor", "pickle"),
    variants=_variants,
    probe=_probe,
    rows=_rows,
    baseline="pickle",
    rounds=7,
)
