"""shmtensor in one minute, beside pickle and SharedMemory: make demo, or python examples/demo.

A loader sends fresh batches of a real table to worker processes, one of which is killed; the memory of each
process is measured. If they are there, torch's DataLoader and a GPU follow. Every figure of the table at the
end was measured in the run.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from functools import partial
from io import StringIO
from pathlib import Path

import numpy as np
from flights import load
from ways import WAYS, Pickle, Segments

import shmtensor as st

MB = 1e6
ROWS = 32_768  # of a batch
KILL_OF = 40  # batches of the stream in which a worker is killed
COLUMNS = ("pickle", "SharedMemory", "torch", "shmtensor")

if importlib.util.find_spec("rich") is None:
    sys.exit("the demo needs rich: make demo installs it, or pip install rich")

from rich.console import Console  # noqa: E402
from rich.progress import Progress  # noqa: E402
from rich.table import Table  # noqa: E402
from team import AHEAD, Team  # noqa: E402


class Report:
    """Figures by row and column, the lines about them, and whether all answers were right."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.rows: dict[str, dict[str, str]] = {}
        self.notes: list[str] = []
        self.wrong: list[str] = []

    def add(self, row: str, column: str, figure: str) -> None:
        self.rows.setdefault(row, {})[column] = figure

    def note(self, text: str) -> None:
        """Print a line, and keep it for the page."""
        self.notes.append(text)
        self.console.print(text, highlight=False, soft_wrap=True)

    def table(self) -> Table:
        columns = [name for name in COLUMNS if any(name in row for row in self.rows.values())]
        table = Table(title="Measured in this run", title_justify="left")
        table.add_column("")
        for name in columns:
            table.add_column(name, justify="right", style="bold" if name == "shmtensor" else "")
        for row, figures in self.rows.items():
            table.add_row(row, *(figures.get(name, "") for name in columns))
        return table

    def write_html(self, file: Path) -> None:
        page = Console(record=True, file=StringIO(), width=110)
        page.print("shmtensor in one minute", style="bold")
        for text in self.notes:
            page.print(text, highlight=False)
        page.print(self.table())
        page.save_html(str(file))


def free_shared_memory() -> int:
    """Return the bytes that files in /dev/shm can still take."""
    try:
        state = os.statvfs("/dev/shm")  # noqa: S108
    except OSError:
        return 0
    return state.f_bavail * state.f_frsize


def batches_of(table: np.ndarray) -> list[np.ndarray]:
    """Return the rows of each batch: the table in random order."""
    order = np.random.default_rng(0).permutation(len(table))
    return np.array_split(order, max(1, len(table) // ROWS))


def show_way(
    report: Report, progress: Progress, way: type[Pickle], table: np.ndarray, options: argparse.Namespace
) -> None:
    """Stream batches to workers, measure their memory, kill one of them."""
    batches = batches_of(table)
    size = f"{len(batches[0]) * table[0].nbytes / MB:.1f} MB"
    task = progress.add_task(f"{way.name}: {options.workers} workers start", total=options.seconds)
    with Team(way, table, batches, options.workers) as team:
        team.wait_until_ready()
        progress.update(task, description=f"{way.name}: fresh batches")
        rate = team.stream(options.seconds, lambda done: progress.update(task, completed=done))
        memory = team.memory()
        progress.update(task, description=f"{way.name}: a worker is killed")
        answered = team.kill_one(KILL_OF)
        if not team.correct:
            report.wrong.append(f"{way.name}: wrong means")
    lost = KILL_OF - answered
    if lost and way.name == "shmtensor":
        report.wrong.append(f"{way.name}: {lost} batches lost")
    total = sum(one.pss for one in memory.values()) / MB
    report.add(f"batches of {size} a second", way.name, f"{rate:.0f}")
    report.add(f"answers of {KILL_OF}, one kill", way.name, f"{answered}")
    for process, one in memory.items():
        report.add(f"{process} alone, MB", way.name, f"{one.uss / MB:.0f}")
    report.add("all processes, MB", way.name, f"{total:.0f}")
    report.note(
        f"{way.name}: {rate:.0f} fresh batches of {size} a second; "
        f"{lost or 'nothing'} lost when a worker was killed; {total:.0f} MB in all processes"
    )


def show_torch(report: Report, progress: Progress, table: np.ndarray, seconds: float) -> None:
    """Run torch's DataLoader with and without the integration."""
    task = progress.add_task("torch: import", total=2)
    from loaders import batches_per_second

    rates = []
    for column in ("torch", "shmtensor"):
        progress.update(
            task, description=f"torch: DataLoader, {'as it is' if column == 'torch' else 'installed'}"
        )
        if column == "shmtensor":
            st.install("torch")
        rates.append(batches_per_second(table, seconds))
        report.add("DataLoader, batches a second", column, f"{rates[-1]:.0f}")
        progress.advance(task)
    report.note(
        f'torch\'s DataLoader: {rates[0]:.0f} batches a second, {rates[1]:.0f} after st.install("torch")'
    )


def show_gpu(report: Report, progress: Progress, table: np.ndarray) -> None:
    """Give a table on the GPU to a worker."""
    from gpu import hand_over

    task = progress.add_task("GPU", total=1)
    host, handle, right = hand_over(table)
    if not right:
        report.wrong.append("GPU: wrong means")
    for column, seconds in (("pickle", host), ("shmtensor", handle)):
        report.add(f"{table.nbytes / MB:.0f} MB on the GPU, ms", column, f"{seconds * 1e3:.2f}")
    report.note(f"GPU: {host * 1e3:.2f} ms through the host, {handle * 1e3:.2f} ms as a handle")
    progress.advance(task)


def run(options: argparse.Namespace) -> int:
    """Run all parts that this machine has, and return the exit status."""
    console = Console()
    report = Report(console)
    name, table = load()
    report.note(
        f"{name}: {table.nbytes / MB:.1f} MB, {options.workers} workers on {os.cpu_count()} processors"
    )
    needed = table.nbytes + ROWS * table[0].nbytes * AHEAD * options.workers
    with Progress(console=console, transient=True) as progress:
        parts = []
        for way in WAYS:
            if way is Segments and free_shared_memory() < 2 * needed:
                report.note(
                    "SharedMemory: left out, /dev/shm is too small for the data"
                )  # a write ends by SIGBUS
                continue
            parts.append(partial(show_way, report, progress, way, table, options))
        if importlib.util.find_spec("torch") is None:
            report.note("torch: left out, it is not installed")
        else:
            parts.append(partial(show_torch, report, progress, table, options.seconds))
        if st.cuda.is_available():
            parts.append(partial(show_gpu, report, progress, table))
        else:
            report.note("GPU: left out, there is none")
        for part in parts:
            part()
    console.print(report.table())
    if options.html is not None:
        report.write_html(options.html)
    for problem in report.wrong:
        console.print(problem, style="red")
    return 1 if report.wrong else 0


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value <= 60:
        msg = f"more than 0 and at most 60 seconds: {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return value


def main() -> int:
    """Read the arguments and run the demo."""
    parser = argparse.ArgumentParser(prog="python examples/demo", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--workers", type=int, choices=range(2, 65), default=4, metavar="2...64", help="(default: 4)"
    )
    parser.add_argument("--seconds", type=_positive, default=2.0, help="length of each stream (default: 2)")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the result as a page, too")
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
