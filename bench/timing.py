"""Times of calls, and of processors."""

from __future__ import annotations

import ctypes
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_libc = ctypes.CDLL(None)


@contextmanager
def without_collector() -> Iterator[None]:
    """Keep Python's garbage collector out of the measurement, as `timeit` does."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def alternate(
    functions: dict[str, Callable[[], object]], *, budget: float, at_least: int = 3, at_most: int = 400
) -> dict[str, float]:
    """Call the functions in turn, A B A B; return each one's median time in seconds.

    The result also has the 99th percentile, as "NAME p99".

    Parameters
    ----------
    budget
        Approximate seconds in all; each function is called at least `at_least` times.
    """
    times: dict[str, list[float]] = {name: [] for name in functions}
    clock = time.perf_counter
    with without_collector():
        end = clock() + budget
        for turn in range(at_most):
            if turn >= at_least and clock() > end:
                break
            for name, function in functions.items():
                start = clock()
                function()
                times[name].append(clock() - start)
    found = {name: statistics.median(each) for name, each in times.items()}
    return found | {f"{name} p99": p99(each) for name, each in times.items()}


def p99(times: list[float]) -> float:
    """Return the 99th percentile, which is the maximum of fewer than a hundred values."""
    return sorted(times)[(len(times) * 99) // 100]


def per_call(function: Callable[[int], object], count: int) -> float:
    """Return the seconds of one of the `count` iterations that `function` runs."""
    with without_collector():
        start = time.perf_counter()
        function(count)
        return (time.perf_counter() - start) / count


def used(pid: int) -> float:
    """Return the seconds that the threads of a process have run, up to this instant."""
    clock = ctypes.c_int()
    if _libc.clock_getcpuclockid(pid, ctypes.byref(clock)) != 0:
        raise ProcessLookupError(f"process {pid} has ended")
    return time.clock_gettime(clock.value)
