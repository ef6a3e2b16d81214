"""Pipes: a message and its answer, the end after SIGKILL of the process at the other end, making many.

The programs differ in one import only. The observation is that of an Atari game; it comes from the other
process, the action from this one. An end is awaited by `recv`, as a vector environment does.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import shmtensor.multiprocessing as drop_in
from bench.model import Goal, Measure, Probe
from bench.options import Options
from bench.rows import case_of_ways
from bench.scale_session import manager_pid
from bench.timing import p99, without_collector

SMALL, OBSERVATION = '("step", 3), and back', "an action, and an observation of 28 KB back"
TOGETHER = ", one processor"
END, MAKE, DESCRIPTORS = "the end after SIGKILL", "make and close one of 1,000", "a process with 1,000"
TRIPS = [f"{what}{how}" for what in (SMALL, OBSERVATION) for how in ("", TOGETHER)]
UNITS = {
    **dict.fromkeys(TRIPS, ("us", 1e6)),
    END: ("ms", 1e3),
    MAKE: ("us", 1e6),
    DESCRIPTORS: ("descriptors", 1.0),
}
OURS, STANDARD, NO_MANAGER = "drop-in", "multiprocessing", "drop-in, manager killed"
MODULES: dict[str, Any] = {OURS: drop_in, STANDARD: multiprocessing, NO_MANAGER: drop_in}
KILLS = {OURS: 100, STANDARD: 100, NO_MANAGER: 10}  # a round
PIPES = 1_000


def _ways(variant: str) -> list[str]:
    return list(MODULES) if variant == END else [OURS, STANDARD]


def _answer(end: Any, variant: str, options: Options) -> None:
    options.place(1)
    observation = np.zeros((84, 84, 4), np.uint8) if variant.startswith(OBSERVATION) else None
    while (message := end.recv()) is not None:
        end.send(message if observation is None else (observation, 1.0, False, {}))


@contextmanager
def _partner(module: Any, variant: str, options: Options) -> Iterator[tuple[Any, Any]]:
    """Fork a process that answers; yield this end of the pipe, and the process."""
    context = module.get_context("fork")
    mine, other = context.Pipe()
    process = context.Process(target=_answer, args=(other, variant, options), daemon=True)
    process.start()
    other.close()
    yield mine, process
    process.join()
    mine.close()


def _trip(module: Any, variant: str, options: Options) -> Measure:
    """Return the time of a message and its answer."""
    if variant.endswith(TOGETHER):
        options = replace(options, pin="together")
    clock, found, message = time.perf_counter, [], ("step", 3)
    with _partner(module, variant, options) as (end, _process), without_collector():
        for _ in range(20 if options.quick else 3_000):
            start = clock()
            end.send(message)
            end.recv()
            found.append(clock() - start)
        end.send(None)
    return {"": statistics.median(found), " p99": p99(found)}


def _end(way: str, options: Options) -> float:
    """Return the time from SIGKILL until `recv` raises EOFError."""
    with _partner(MODULES[way], SMALL, options) as (end, process):
        end.send(1)
        assert end.recv() == 1
        if way == NO_MANAGER:
            os.kill(manager_pid(), signal.SIGKILL)
        start = time.perf_counter()
        process.kill()
        try:
            end.recv()
        except EOFError:
            return time.perf_counter() - start
    raise AssertionError("a killed process has sent a message")


def _ends(way: str, options: Options) -> Measure:
    found = [_end(way, options) for _ in range(1 if options.quick else KILLS[way])]
    return {"": statistics.median(found), " p99": p99(found)}


def _make(module: Any, variant: str, options: Options) -> Measure:
    """Return the time of making and closing a pipe of many, or the descriptors of a process that has them."""
    count = 10 if options.quick else PIPES
    start = time.perf_counter()
    pipes = [module.Pipe() for _ in range(count)]
    used = len(list(Path("/proc/self/fd").iterdir()))
    for end in (one for pipe in pipes for one in pipe):
        end.close()
    return {"": (time.perf_counter() - start) / count if variant == MAKE else used}


def _measure(variant: str, way: str, options: Options) -> Measure:
    if variant == END:
        return _ends(way, options)
    return (_make if variant in (MAKE, DESCRIPTORS) else _trip)(MODULES[way], variant, options)


@contextmanager
def _probe(peer: str, options: Options) -> Iterator[Probe]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # the standard library needs two for each pipe
    ends: list[Any] = [*drop_in.Pipe()]  # the session lasts as long as this process
    with _WAYS.probe(peer, options) as measure:
        yield measure
    for end in ends:
        end.close()


def _goal(variant: str, way: str) -> Goal | None:
    if variant == SMALL and way == STANDARD:
        return Goal(40, "ratio", at_least=True)
    return Goal(10) if variant == END and way != STANDARD else None


_WAYS = case_of_ways(
    "pipes",
    summary="the pipes of the drop-in and of the standard library",
    units=UNITS,
    ways=_ways,
    measure=_measure,
    base=lambda _: OURS,
    goal=_goal,
    baseline=OURS,
    rounds=5,
)
CASE = replace(_WAYS, probe=_probe)
