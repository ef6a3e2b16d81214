"""Locks and what else processes wait with, beside those of the standard library and of other packages."""

from __future__ import annotations

import functools
import importlib.util
import multiprocessing
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import shmtensor as st
import shmtensor.multiprocessing as mp
from bench.model import Goal
from bench.options import Options
from bench.rows import case_of_ways
from bench.timing import per_call

ALONE, WITH = "acquire and release, no other process", "with lock, no other process"
HANDOVER, NOTIFY, BARRIER = "hand-over of a lock", "notify, and the return from wait", "barrier of 4"
LIMITS = {ALONE: 0.8, WITH: 0.8, HANDOVER: 1 / 3, NOTIFY: 1 / 3, BARRIER: 1 / 3}
TIMES = {ALONE: 200_000, WITH: 200_000, HANDOVER: 10_000, NOTIFY: 3_000, BARRIER: 1_000}
MODULES: dict[str, Any] = {"shmtensor": mp, "multiprocessing": multiprocessing}


def _posix_ipc() -> Any:
    import posix_ipc  # type: ignore[import-not-found]  # optional, as those below

    semaphore = posix_ipc.Semaphore(None, posix_ipc.O_CREX, initial_value=1)
    semaphore.unlink()
    return semaphore


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


def _filelock() -> Any:
    import filelock  # type: ignore[import-not-found]

    return filelock.FileLock(Path(_folder().name) / "lock")


@functools.cache
def _ultradict() -> Any:
    from UltraDict import UltraDict  # type: ignore[import-not-found]

    return UltraDict(shared_lock=True)


# How each makes a lock; those that any process may release take part in the hand-over.
OF_ANYONE = {name: module.Lock for name, module in MODULES.items()} | {"posix_ipc": _posix_ipc}
OF_OWNER = {"threading": threading.Lock, "filelock": _filelock, "UltraDict": lambda: _ultradict().lock}


def _names(variant: str) -> list[str]:
    """Return those that are installed, and for which the variant is possible."""
    if variant in {NOTIFY, BARRIER}:
        return list(MODULES)
    makers = OF_ANYONE if variant == HANDOVER else OF_ANYONE | OF_OWNER
    return [name for name in makers if importlib.util.find_spec(name) is not None]


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


def _measure(variant: str, name: str, options: Options) -> float:
    times = 10 if options.quick else TIMES[variant]
    if variant in {ALONE, WITH}:
        lock, call = (OF_ANYONE | OF_OWNER)[name](), alone if variant == ALONE else with_lock
        return per_call(lambda count: call(lock, count), times)
    if variant == HANDOVER:
        first, second = OF_ANYONE[name](), OF_ANYONE[name]()
        second.acquire()
        return _together(options, give, (second, first, times), (first, second, times)) / times / 2
    module = MODULES[name]
    if variant == NOTIFY:
        condition, turn = module.Condition(), st.zeros(1, dtype="int64").numpy()
        return (
            _together(options, take_turns, (condition, turn, 1, times), (condition, turn, 0, times))
            / times
            / 2
        )
    barrier = module.Barrier(4)
    return _together(options, meet, *[(barrier, times)] * 4) / times


CASE = case_of_ways(
    "locks",
    summary="locks, conditions and barriers between processes",
    units=dict.fromkeys(LIMITS, ("us", 1e6)),
    ways=_names,
    measure=_measure,
    base=lambda _: "multiprocessing",
    goal=lambda variant, way: Goal(LIMITS[variant], "ratio") if way == "shmtensor" else None,
    baseline="multiprocessing's",
    rounds=5,
)
