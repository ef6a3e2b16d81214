"""``shmtensor demo``: send one array to several workers in three ways.

The array is real data if available. It is sent to spawned workers by pickling, through `SharedMemory` of the
standard library, and as a shmtensor tensor; each worker computes the same result from all of it. The command
prints the time to send it, the throughput of the work, and the memory of every process.
"""

from __future__ import annotations

import importlib.util
import os
import time
from dataclasses import dataclass
from functools import partial
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import shmtensor as st
from shmtensor.cli._arguments import count
from shmtensor.cli._demo_data import DemoDataError, load
from shmtensor.cli._demo_worker import PASSES, STEPS, NamedArray, Result, examine, work
from shmtensor.cli._output import echo
from shmtensor.memory import ProcessMemory, process_memory

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    import numpy.typing as npt

    Array = npt.NDArray[Any]

__all__ = ["add_parser"]

_MB = 1e6
_TIMEOUT = 300.0  # seconds to wait for a report of a worker


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "demo", help="share an array with several workers, compared with pickling and SharedMemory"
    )
    parser.add_argument(
        "path",
        nargs="?",
        type=Path,
        help="a .npy or .npz file or a folder of images; without it, a table of 336,776 flights, "
        "or random numbers if that is not installed",
    )
    parser.add_argument("--workers", type=count, default=4, help="number of processes (default: 4)")
    parser.set_defaults(run=_run)


@dataclass
class Outcome:
    """The cost of one way to send the array."""

    way: str
    copy_in: float
    hand_over: float
    work: float
    memory: dict[str, ProcessMemory]
    correct: bool


class Team:
    """Workers for one round of the demo."""

    def __init__(self, count: int) -> None:
        import shmtensor.multiprocessing as mp

        context = mp.get_context("spawn")
        self.reports = context.SimpleQueue()
        self.orders = [context.SimpleQueue() for _ in range(count)]
        self.processes = [
            context.Process(target=work, args=(rank, orders, self.reports), daemon=True)
            for rank, orders in enumerate(self.orders)
        ]
        for process in self.processes:
            process.start()
        self.wait_for("ready")

    def send(self, order: Any) -> None:
        for orders in self.orders:
            orders.put(order)

    def wait_for(self, kind: str, step_done: Callable[[], object] | None = None) -> list[Any]:
        """Collect one report of that kind from each worker."""
        collected: dict[int, Any] = {}
        deadline = time.monotonic() + _TIMEOUT
        while len(collected) < len(self.processes):
            if not self.reports._reader.poll(1.0):
                dead = [process.exitcode for process in self.processes if process.exitcode is not None]
                if dead or time.monotonic() > deadline:
                    msg = f"a worker ended early, exit codes {dead}" if dead else "a worker hangs"
                    raise RuntimeError(msg)
                continue
            rank, what, value = self.reports.get()
            if what == kind:
                collected[rank] = value
            elif what == "step" and step_done is not None:
                step_done()
        return [collected[rank] for rank in sorted(collected)]

    def end(self) -> None:
        self.send(None)
        for process in self.processes:
            process.join(30)


def _measure(way: str, data: Array, team: Team, expected: Result, step_done: Callable[[], object]) -> Outcome:
    """Send the data in one way, let all workers process it, and measure the memory."""
    segment: SharedMemory | None = None
    message: Any = data
    begin = time.perf_counter()
    if way == "SharedMemory":
        segment = SharedMemory(create=True, size=data.nbytes)
        copy: Array = np.ndarray(data.shape, data.dtype, segment.buf)
        np.copyto(copy, data)
        del copy
        message = NamedArray(segment.name, data.shape, data.dtype)
    elif way == "shmtensor":
        message = st.asarray(data)
    copied = time.perf_counter()
    team.send(message)
    team.wait_for("received")
    handed_over = time.perf_counter()
    team.send(None)
    results = team.wait_for("result", step_done)
    worked = time.perf_counter()
    memory = _memory_of(team)
    team.end()
    del message
    if segment is not None:
        segment.close()
        segment.unlink()
    return Outcome(
        way,
        copied - begin,
        handed_over - copied,
        worked - handed_over,
        memory,
        all(result == expected for result in results),
    )


def _memory_of(team: Team) -> dict[str, ProcessMemory]:
    workers = {f"worker {i}": process_memory(p.pid) for i, p in enumerate(team.processes)}
    return {"parent": process_memory(), **workers}


def _transports(nbytes: int) -> list[str]:
    """Return the ways that this machine has memory for; in a full /dev/shm NumPy would end by SIGBUS."""
    try:
        state = os.statvfs("/dev/shm")  # noqa: S108
        free = state.f_bavail * state.f_frsize
    except OSError:
        free = 0
    return ["pickle", *(["SharedMemory"] if free > nbytes else []), "shmtensor"]


def _run(options: argparse.Namespace) -> int:
    if importlib.util.find_spec("rich") is None:
        echo("the demo needs rich: pip install 'shmtensor[cli]'")
        return 2
    from rich.console import Console
    from rich.progress import Progress

    console = Console()
    try:
        name, data = load(options.path)
    except DemoDataError as error:
        console.print(str(error), style="red")
        return 2
    console.print(f"[bold]{name}[/]: {data.dtype} {data.shape}, {data.nbytes / _MB:.1f} MB")
    expected = examine(data, lambda: None)
    ways = _transports(data.nbytes)
    if "SharedMemory" not in ways:
        console.print("SharedMemory is skipped: /dev/shm is too small for the data")
    outcomes = []
    with Progress(console=console, transient=True) as progress:
        for way in ways:
            task = progress.add_task(f"{way}: starting workers", total=options.workers * PASSES * STEPS)
            team = Team(options.workers)
            progress.update(task, description=f"{way}: {options.workers} workers at work")
            outcomes.append(_measure(way, data, team, expected, partial(progress.advance, task)))
    _print(console, data, options.workers, outcomes)
    return 0 if all(outcome.correct for outcome in outcomes) else 1


def _print(console: Any, data: Array, workers: int, outcomes: list[Outcome]) -> None:
    from rich.table import Table

    table = Table(title=f"Handing {data.nbytes / _MB:.1f} MB to {workers} workers")
    for column in ("way", "copy in\nms", "hand over\nms", "work\nGB/s", "memory of all\nMB", "results"):
        table.add_column(column, justify="left" if column == "way" else "right")
    for outcome in outcomes:
        table.add_row(
            outcome.way,
            f"{outcome.copy_in * 1e3:.1f}",
            f"{outcome.hand_over * 1e3:.2f}",
            f"{data.nbytes * PASSES * workers / outcome.work / 1e9:.2f}",
            f"{sum(memory.pss for memory in outcome.memory.values()) / _MB:.0f}",
            "equal" if outcome.correct else "[red]DIFFERENT[/]",
        )
    console.print(table)
    table = Table(title="Memory of each process, MB: RSS / PSS / USS")
    table.add_column("process")
    for outcome in outcomes:
        table.add_column(outcome.way, justify="right")
    for process in outcomes[0].memory:
        rows = [outcome.memory[process] for outcome in outcomes]
        cells = [f"{row.rss / _MB:.0f} / {row.pss / _MB:.0f} / {row.uss / _MB:.0f}" for row in rows]
        table.add_row(process, *cells)
    console.print(table)
    console.print(
        "PSS divides shared pages by the number of processes that map them; USS counts private pages only."
    )
