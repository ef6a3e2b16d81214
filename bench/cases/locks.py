"""Locks and what else processes wait with, beside those of the standard library."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import shmtensor as st
import shmtensor.multiprocessing as mp
from bench.model import Case, Goal, Measure, Probe, Row, Samples, Summary
from bench.options import Options
from bench.timing import per_call

__all__ = ["CASE"]

ALONE, WITH = "acquire and release, no other process", "with lock, no other process"
HANDOVER, NOTIFY, BARRIER = "hand-over of a lock", "notify, and the return from wait", "barrier of 4"
LIMITS = {ALONE: 0.8, WITH: 0.8, HANDOVER: 1 / 3, NOTIFY: 1 / 3, BARRIER: 1 / 3}
TIMES = {ALONE: 200_000, WITH: 200_000, HANDOVER: 10_000, NOTIFY: 3_000, BARRIER: 1_000}
MODULES = {"shmtensor": mp, "multiprocessing": multiprocessing}


def alone(lock: Any, times: int) -> None:
    for _ in range(times):
        lock.acquire()
        lock.release()


def with_lock(lock: Any, times: int) -> None:
    for _ in range(times):
        with lock:
            pass


def give(mine: Any, theirs: Any, times: int) -> None:
    for _ in range(times):
        mine.acquire()
        theirs.release()


def take_turns(condition: Any, turn: Any, own: int, times: int) -> None:
    for _ in range(times):
        with condition:
            while turn[0] != own:
                condition.wait()
            turn[0] = 1 - own
            condition.notify()


def meet(barrier: Any, times: int) -> None:
    for _ in range(times):
        barrier.wait()


def _placed(options: Options, number: int, target: Callable[..., None], *arguments: Any) -> None:
    options.place(number % 2)
    target(*arguments)


def _together(options: Options, target: Callable[..., None], *arguments: tuple[Any, ...]) -> float:
    """Return the seconds of the last call, which this process makes beside those of its children."""
    context = multiprocessing.get_context("fork")
    children = [
        context.Process(target=_placed, args=(options, number, target, *one))
        for number, one in enumerate(arguments[:-1], 1)
    ]
    for child in children:
        child.start()
    options.place(0)
    start = time.perf_counter()
    target(*arguments[-1])
    seconds = time.perf_counter() - start
    for child in children:
        child.join()
    return seconds


def _one(variant: str, module: Any, options: Options) -> float:
    times = 10 if options.quick else TIMES[variant]
    if variant in {ALONE, WITH}:
        lock, call = module.Lock(), alone if variant == ALONE else with_lock
        return per_call(lambda count: call(lock, count), times)
    if variant == HANDOVER:
        first, second = module.Lock(), module.Lock()
        second.acquire()
        return _together(options, give, (second, first, times), (first, second, times)) / times / 2
    if variant == NOTIFY:
        condition, turn = module.Condition(), st.zeros(1, dtype="int64").numpy()
        return (
            _together(options, take_turns, (condition, turn, 1, times), (condition, turn, 0, times))
            / times
            / 2
        )
    barrier = module.Barrier(4)
    return _together(options, meet, *[(barrier, times)] * 4) / times


@contextmanager
def _probe(_peer: str, options: Options) -> Iterator[Probe]:
    def measure(variant: str) -> Measure:
        return {name: _one(variant, module, options) for name, module in MODULES.items()}

    yield measure


def _rows(samples: Samples) -> list[Row]:
    rows = []
    for variant, limit in LIMITS.items():
        if not samples.has("shmtensor", variant):
            continue
        for name in MODULES:
            values = Summary.of(samples.values("shmtensor", variant, name), 1e6)
            ratio = Summary.of(samples.ratios("shmtensor", variant, name, "multiprocessing")).median
            goal = Goal(limit, "ratio") if name == "shmtensor" else None
            rows.append(Row(variant, name, "us", values, ratio, goal))
    return rows


CASE = Case(
    name="locks",
    summary="locks, conditions and barriers between processes",
    peers=("shmtensor",),
    variants=lambda _peer, _options: list(LIMITS),
    probe=_probe,
    rows=_rows,
    baseline="multiprocessing's",
    rounds=5,
)
