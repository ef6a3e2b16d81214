"""Increments of one number by two processes, and of many at an array of indices."""

from __future__ import annotations

import importlib.util
import multiprocessing
import statistics
import time
from typing import Any

import numpy as np

import shmtensor as st
from bench.model import Goal
from bench.options import Options
from bench.rows import case_of_ways

ONE, MANY = "one element, two processes", "array of indices, one process"
TIMES = {"shmtensor": 1_000_000, "multiprocessing.Value": 50_000, "atomics": 200_000}
BASES = {ONE: "multiprocessing.Value", MANY: "np.add.at"}
MOST = {ONE: 150, MANY: 20}  # nanoseconds
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


def _ways(variant: str) -> list[str]:
    if variant == MANY:
        return ["shmtensor", BASES[MANY]]
    return [way for way in TIMES if way != "atomics" or importlib.util.find_spec(way)]


def _measure(variant: str, way: str, options: Options) -> float:
    if variant == ONE:
        return _both(way, options)
    if way == "shmtensor":
        return _at_indices(st.atomic.add, st.zeros(BINS, np.int64), options)
    return _at_indices(np.add.at, np.zeros(BINS, np.int64), options)


CASE = case_of_ways(
    "atomic",
    summary="add 1: to one element in two processes, to many in one",
    units=dict.fromkeys(BASES, ("ns", 1e9)),
    ways=_ways,
    measure=_measure,
    base=BASES.__getitem__,
    goal=lambda variant, way: Goal(MOST[variant]) if way == "shmtensor" else None,
    baseline="multiprocessing.Value with its lock; np.add.at, which loses what others add",
    rounds=5,
)
