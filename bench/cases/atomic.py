"""Increments of one number by two processes, and of many at an array of indices."""

from __future__ import annotations

import importlib.util
import multiprocessing
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

import shmtensor as st
from bench.model import Case, Goal, Measure, Probe, Row, Samples
from bench.options import Options

__all__ = ["CASE"]

ONE, MANY = "one element, two processes", "array of indices, one process"
TIMES = {"shmtensor": 1_000_000, "multiprocessing.Value": 50_000, "atomics": 200_000}
INDICES = 1_000_000
BINS = 65_536


def _increment(way: str, counter: Any, times: int, options: Options, meeting: Any) -> None:
    """Increment, together with the other process, and send the time."""
    barrier, took = meeting
    options.place(barrier.wait())
    barrier.wait()
    start = time.perf_counter()
    if way == "shmtensor":
        for _ in range(times):
            st.atomic.add(counter, 0, 1)
    elif way == "atomics":
        import atomics  # type: ignore[import-not-found]  # optional

        with atomics.atomicview(buffer=memoryview(counter).cast("B"), atype=atomics.INT) as view:
            for _ in range(times):
                view.inc()
    else:
        for _ in range(times):
            with counter.get_lock():
                counter.value += 1
    took.put(time.perf_counter() - start)


def _both(way: str, options: Options) -> float:
    """Return the time of one of the increments that two processes make simultaneously."""
    context: Any = multiprocessing.get_context("spawn")
    times = 100 if options.quick else TIMES[way]
    is_value = way == "multiprocessing.Value"
    counter = context.Value("q", 0) if is_value else st.zeros(1, np.int64)
    meeting = _, took = context.Barrier(2), context.SimpleQueue()
    work = (way, counter, times, options, meeting)
    processes = [context.Process(target=_increment, args=work) for _ in range(2)]
    for process in processes:
        process.start()
    seconds = max(took.get() for _ in processes)
    for process in processes:
        process.join()
    assert (counter.value if is_value else counter[0].item()) == 2 * times, "increments were lost"
    return seconds / (2 * times)


def _at_indices(add: Any, counters: Any, options: Options) -> float:
    indices = np.random.default_rng(0).integers(0, BINS, 1000 if options.quick else INDICES)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        add(counters, indices, 1)
        times.append(time.perf_counter() - start)
    return statistics.median(times) / len(indices)


@contextmanager
def _probe(_peer: str, options: Options) -> Iterator[Probe]:
    ways = [way for way in TIMES if way != "atomics" or importlib.util.find_spec(way)]

    def measure(variant: str) -> Measure:
        if variant == ONE:
            return {way: _both(way, options) for way in ways}
        return {
            "shmtensor": _at_indices(st.atomic.add, st.zeros(BINS, np.int64), options),
            "np.add.at": _at_indices(np.add.at, np.zeros(BINS, np.int64), options),
        }

    yield measure


def _rows(samples: Samples) -> list[Row]:
    def goal(most: float, way: str) -> Goal | None:
        return Goal(most) if way == "shmtensor" else None

    rows = []
    for variant, base, most in ((ONE, "multiprocessing.Value", 150), (MANY, "np.add.at", 20)):
        ways = samples.all("shmtensor", variant)[0] if samples.has("shmtensor", variant) else ()
        rows += samples.rows_of_ways(variant, ways, base, partial(goal, most), unit="ns", scale=1e9)
    return rows


CASE = Case(
    name="atomic",
    summary="add 1: to one element in two processes, to many in one",
    peers=("shmtensor",),
    variants=lambda _peer, _options: [ONE, MANY],
    probe=_probe,
    rows=_rows,
    baseline="multiprocessing.Value with its lock; np.add.at, which loses what others add",
    rounds=5,
)
