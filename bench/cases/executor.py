"""Calls in an executor: the way of one, many, and those that never end."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from bench.model import Case, Goal, Measure, Probe, Row, Samples
from bench.options import Options
from bench.rows import rows_of
from bench.timing import per_call

WORKERS = 2
CALLS, MAPPED = 300, 10_000
LIMITED, TIMEOUT, ENDLESS_EVERY = 500, 0.05, 10
IDEAL = LIMITED / ENDLESS_EVERY * TIMEOUT / WORKERS
LARGE = 100_000_000  # bytes
WITH_LARGE = {"shmtensor": 100, "pickle": 10, "loky": 10}  # calls

ONE, MANY, ENDLESS = "submit, and the result", "map of small calls", "every tenth call never ends"
SAME = "call with the same array of 100 MB"
CLASSES: dict[str, Callable[[], Any]] = {
    "shmtensor": lambda: _executor("shmtensor.futures", "shmtensor.multiprocessing"),
    "pickle": lambda: _executor("concurrent.futures", "multiprocessing"),
    "loky": lambda: importlib.import_module("loky").ProcessPoolExecutor(WORKERS),
}
VARIANTS = {
    "shmtensor": [ONE, MANY, SAME, ENDLESS],
    "pickle": [ONE, MANY, SAME],
    "loky": [ONE, MANY, SAME],
    "pebble": [ENDLESS],
}


def _executor(module: str, multiprocessing: str) -> Any:
    context = importlib.import_module(multiprocessing).get_context("fork")
    return importlib.import_module(module).ProcessPoolExecutor(WORKERS, context)


def _variants(peer: str, options: Options) -> list[str]:
    return [one for one in VARIANTS[peer] if one not in {SAME, ENDLESS} or not options.quick]


def same(value: int) -> int:
    return value


def first(array: Any) -> float:
    return float(array[0])


def end_or_not(number: int) -> int:
    if number % ENDLESS_EVERY == 0:
        time.sleep(3600)
    return number


def _limited(peer: str) -> float:
    """Return the seconds until all results are there."""
    start = time.perf_counter()
    if peer == "shmtensor":
        import shmtensor.multiprocessing as mp

        with mp.get_context("fork").Pool(WORKERS) as pool:
            results = [pool.apply_async(end_or_not, (i,), timeout=TIMEOUT) for i in range(LIMITED)]
            ended = sum(_ends(result.get, mp.TaskTimeout) for result in results)
    else:
        pebble = importlib.import_module("pebble")
        with pebble.ProcessPool(WORKERS) as pool:
            results = [pool.schedule(end_or_not, (i,), timeout=TIMEOUT) for i in range(LIMITED)]
            ended = sum(_ends(result.result, futures.TimeoutError) for result in results)
    if ended != LIMITED - LIMITED // ENDLESS_EVERY:
        msg = f"{ended} calls ended"
        raise RuntimeError(msg)
    return time.perf_counter() - start


def _ends(get: Callable[[], object], error: type[BaseException]) -> bool:
    try:
        get()
    except error:
        return False
    return True


@contextmanager
def _probe(peer: str, _options: Options) -> Iterator[Probe]:
    if peer == "pebble":
        yield lambda _: {"seconds": _limited(peer)}
        return
    with CLASSES[peer]() as executor:

        def one_by_one(count: int) -> None:
            for i in range(count):
                executor.submit(same, i).result()

        def with_large(count: int) -> None:
            array = np.ones(LARGE // 8)
            for future in [executor.submit(first, array) for _ in range(count)]:
                future.result()

        def measure(variant: str) -> Measure:
            if variant == ENDLESS:
                return {"seconds": _limited(peer)}
            if variant == ONE:
                return {"seconds": per_call(one_by_one, CALLS)}
            if variant == SAME:
                return {"seconds": per_call(with_large, WITH_LARGE[peer])}
            return {"seconds": per_call(lambda count: list(executor.map(same, range(count))), MAPPED)}

        yield measure


def _rows(samples: Samples) -> list[Row]:
    rows = rows_of(samples, (ONE, MANY), CASE.peers, "seconds")
    rows += rows_of(samples, [SAME], CASE.peers, "seconds", unit="ms", scale=1e3)
    goals = {ENDLESS: Goal(1.2, of="ratio")}
    ended = rows_of(samples, [ENDLESS], CASE.peers, "seconds", unit="s", scale=1, goals=goals)
    return rows + [replace(row, ratio=row.summary.median / IDEAL) for row in ended]


CASE = Case(
    name="executor",
    summary=f"small calls in {WORKERS} workers; the last {LIMITED} with a limit of {TIMEOUT} s",
    peers=tuple(VARIANTS),
    variants=_variants,
    probe=_probe,
    rows=_rows,
    baseline=f"{IDEAL} s, if kills and starts took no time",
    rounds=5,
)
