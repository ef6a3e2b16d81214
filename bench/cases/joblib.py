"""Tasks of joblib with and without `st.install`.

    python -m bench joblib [--json FILE] [--rounds N]

Three programs, each with the workers of its own, take turns: joblib alone ("loky"), the same with
`st.install`, and the backend "shmtensor". A call has 8 tasks, since joblib asks loky for results only each
10 ms. A task has a new array of 32 MiB as its argument, of which it reads each page, or returns one that the
worker keeps; "empty" has neither. "tensor": the argument is a tensor, for joblib alone an array. "a copy
alone" is the time of `np.copyto` between two arrays of that size that are used again and again, in the first
program: what an argument costs at least.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor

import shmtensor as st
from bench.comparison import Comparison, programs, report, take_turns
from bench.options import add_rounds, program_parser

GOAL = 10.0
WORKS = ("argument", "tensor", "result", "empty")
PROGRAMS = {"joblib": (False, "loky"), "loky": (True, "loky"), "backend": (True, "shmtensor")}
TASKS = 8

_kept: dict[str, Any] = {}


def _take(array: Any) -> float:
    return float(np.asarray(array)[::512].sum())


def _give(count: int) -> Any:
    if "array" not in _kept:
        _kept["array"] = np.ones(count)
    return _kept["array"]


def _prepare(on: bool, backend: str) -> None:
    if on:
        st.install("joblib")
        _kept["shmtensor"] = True
    _kept["parallel"] = Parallel(2, backend=backend).__enter__()


def _end() -> None:
    _kept["parallel"].__exit__(None, None, None)
    st.uninstall()
    get_reusable_executor(reuse=True).shutdown(kill_workers=True)  # its thread would keep the program alive


def _copy(count: int) -> float:
    """Return the seconds of a copy."""
    if "copy" not in _kept:
        _kept["copy"] = np.ones(count), np.ones(count)
    source, target = _kept["copy"]
    start = time.perf_counter()
    np.copyto(target, source)
    return time.perf_counter() - start


def _time(work: str, count: int) -> float:
    """Return the seconds of a task; runs in one of the two programs."""
    make = st.ones if work == "tensor" and "shmtensor" in _kept else np.ones
    calls = {
        "argument": lambda: delayed(_take)(make(count)),
        "tensor": lambda: delayed(_take)(make(count)),
        "result": lambda: delayed(_give)(count),
        "empty": lambda: delayed(abs)(1),
    }
    tasks = [calls[work]() for _ in range(TASKS)]
    start = time.perf_counter()
    results = _kept["parallel"](tasks)
    taken = time.perf_counter() - start
    assert work == "empty" or np.sum(results[-1]) in (count, count // 512)
    return taken / TASKS


def main(arguments: list[str]) -> int:
    """Measure and print; the exit status is 1 if a goal was missed."""
    parser = program_parser("joblib", __doc__)
    add_rounds(parser, 15, "turns of each program", "small arrays")
    chosen = parser.parse_args(arguments)
    count = (1 if chosen.quick else 32) << 17  # float64
    with programs(_prepare, PROGRAMS, _end) as run:
        calls = {("copy", "joblib"): partial(run["joblib"], _copy, count)}
        calls |= {(work, name): partial(run[name], _time, work, count) for work in WORKS for name in run}
        seen = take_turns(calls, chosen.rounds, 3)  # then both workers have had each task
    found = [
        Comparison(
            f"{work}, {name}", seen[work, name], seen[work, "joblib"], GOAL if work != "empty" else None
        )
        for work in WORKS
        for name in ("loky", "backend")
    ]
    copies = seen["copy", "joblib"]
    found += [Comparison("argument, a copy alone", copies, seen["argument", "joblib"], None)]
    return report(found, chosen.json)
