"""Separate programs: turns of shmtensor and its peers, and what is printed and kept of their times."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from bench.machine import write_record
from bench.model import Summary
from bench.report import number

Name = TypeVar("Name")
Result = TypeVar("Result")

_UNITS = {"us": 1e6, "ms": 1e3}


@dataclass(frozen=True)
class Comparison:
    """Times of both, taken in turns."""

    what: str  # was measured
    ours: Sequence[float]  # seconds, one for each round
    theirs: Sequence[float]
    goal: float | None  # the least median of the ratios of a round, theirs to ours
    unit: str = "ms"  # of the printed times; or "us"

    @property
    def ratio(self) -> Summary:
        return Summary.of([theirs / ours for ours, theirs in zip(self.ours, self.theirs, strict=True)])

    @property
    def met(self) -> bool:
        """Return True if the goal is met, or there is none."""
        return self.goal is None or self.ratio.median >= self.goal

    def figures(self) -> str:
        """Return the ratio with its extremes, and both times."""
        ratio, scale = self.ratio, _UNITS[self.unit]
        ours, theirs = (Summary.of(list(times), scale).median for times in (self.ours, self.theirs))
        low, median, high = map(number, (ratio.least, ratio.median, ratio.most))
        return f"{median} times ({low} to {high}); {number(ours)} {self.unit} against {number(theirs)}"


def take_turns(
    calls: Mapping[Name, Callable[[], Result]], rounds: int, discarded: int = 1
) -> dict[Name, list[Result]]:
    """Call the functions in turn, A B A B; return what each has returned, but not in the first turns."""
    found: dict[Name, list[Result]] = {name: [] for name in calls}
    for turn in range(discarded + rounds):
        for name, call in calls.items():
            result = call()
            if turn >= discarded:
                found[name].append(result)
    return found


@contextmanager
def programs(
    prepare: Callable[..., None], arguments: Mapping[str, tuple[Any, ...]], end: Callable[[], None]
) -> Iterator[dict[str, Callable[..., Any]]]:
    """Start programs that begin with `prepare`; yield, by name, what runs a call in each."""
    spawn = multiprocessing.get_context("spawn")
    started = {name: ProcessPoolExecutor(1, spawn, prepare, own) for name, own in arguments.items()}
    yield {name: partial(_result, program) for name, program in started.items()}
    for program in started.values():
        program.submit(end).result()
        program.shutdown()


def _result(program: ProcessPoolExecutor, *call: Any) -> Any:
    return program.submit(*call).result()


def report(comparisons: Sequence[Comparison], file: Path | None) -> int:
    """Print the comparisons and keep them in a file; return the exit status, 1 if a goal was missed."""
    for one in comparisons:
        state = "    " if one.goal is None else "ok  " if one.met else "MISS"
        wanted = "" if one.goal is None else f"; wanted: {one.goal:g}"
        print(f"{state} {one.what}: {one.figures()}{wanted}")
    if file is not None:
        write_record(file, {"comparisons": [asdict(one) for one in comparisons]})
    return 0 if all(one.met for one in comparisons) else 1
