"""The memory of processes: private, shared, and shared tensors.

The terms are those of ``/proc/PID/smaps`` of Linux; docs/guide/one-copy.md explains them.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from shmtensor._procfs import children
from shmtensor._values import check_integer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["MemoryMonitor", "ProcessMemory", "process_memory", "process_tree"]
__dir__ = __all__.copy

_MAPPING = re.compile(rb"^[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \S+ *(.*)$")


@dataclass(frozen=True)
class ProcessMemory:
    """The memory of a process, in bytes.

    Attributes
    ----------
    rss
        All pages of the process that are in memory. A shared page counts in each process.
    pss
        The same, with every page divided by the number of processes that map it: the sum over all
        processes is the memory that they take together.
    uss
        Pages that only this process maps: the memory that its end would free.
    shared
        Pages that other processes map, too.
    shared_file
        The part of `shared` that belongs to files, including shared tensors.
    tensors
        Pages of shmtensor's memory that this process has touched; a part of `rss`.
    tensors_pss
        The same, divided as in `pss`.
    """

    rss: int = 0
    pss: int = 0
    uss: int = 0
    shared: int = 0
    shared_file: int = 0
    tensors: int = 0
    tensors_pss: int = 0


def process_memory(pid: int | None = None) -> ProcessMemory:
    """Measure a process.

    Parameters
    ----------
    pid
        Process id; None for this process.

    Returns
    -------
    ProcessMemory
        Read from ``/proc/PID/smaps``, which takes the kernel about a millisecond per gigabyte in use.

    Raises
    ------
    ProcessLookupError
        If there is no such process.
    PermissionError
        If it belongs to another user.
    """
    number = os.getpid() if pid is None else check_integer("pid", pid)
    try:
        text = Path(f"/proc/{number}/smaps").read_bytes()
    except FileNotFoundError:
        msg = f"there is no process {number}"
        raise ProcessLookupError(msg) from None
    return _add_up(text)


def _add_up(smaps: bytes) -> ProcessMemory:
    sums = dict.fromkeys((field.name for field in fields(ProcessMemory)), 0)
    name = b""
    for line in smaps.splitlines():
        key, _, rest = line.partition(b":")
        if key == b"Rss":
            size = int(rest.split()[0])
            sums["rss"] += size
            sums["tensors"] += size if b"shmtensor-" in name else 0
        elif key == b"Pss":
            size = int(rest.split()[0])
            sums["pss"] += size
            sums["tensors_pss"] += size if b"shmtensor-" in name else 0
        elif key in (b"Private_Clean", b"Private_Dirty"):
            sums["uss"] += int(rest.split()[0])
        elif key in (b"Shared_Clean", b"Shared_Dirty"):
            size = int(rest.split()[0])
            sums["shared"] += size
            sums["shared_file"] += size if name.startswith(b"/") else 0
        elif (found := _MAPPING.match(line)) is not None:
            name = found[1]
    return ProcessMemory(**{key: size * 1024 for key, size in sums.items()})


def process_tree(pid: int) -> list[int]:
    """Return a process and all its living descendants, the process first."""
    found = [pid]
    for parent in found:
        found += [child for child in children(parent) if child not in found]
    return found


class MemoryMonitor:
    """Samples the memory of processes over time.

    Parameters
    ----------
    pids
        Process ids; None for this process and its descendants at the time of each measurement.

    Examples
    --------
    >>> import shmtensor as st
    >>> monitor = st.memory.MemoryMonitor()
    >>> now = monitor.measure()
    >>> print(monitor.table())  # doctest: +SKIP
        time      PID     rss     pss     uss  shared  shared_file  tensors
    """

    def __init__(self, pids: Iterable[int] | None = None) -> None:
        self._with_tree = pids is None
        self._pids = list(pids or ())
        self._start = time.monotonic()
        self._history: list[tuple[float, dict[int, ProcessMemory]]] = []

    def add(self, pid: int) -> None:
        """Add a process to the monitor."""
        self._pids.append(pid)

    def measure(self) -> dict[int, ProcessMemory]:
        """Measure all processes that live, add the result to the history, and return it by pid."""
        tree = process_tree(os.getpid()) if self._with_tree else []
        found = {}
        for pid in dict.fromkeys(tree + self._pids):
            with suppress(ProcessLookupError):  # it has ended
                found[pid] = process_memory(pid)
        self._history.append((time.monotonic() - self._start, found))
        return found

    def history(self) -> list[tuple[float, dict[int, ProcessMemory]]]:
        """Return all measurements: seconds since the monitor was created, and the processes by pid."""
        return list(self._history)

    def total_pss(self) -> int:
        """Return the PSS of all processes in the last measurement; measure if there is none."""
        found = self._history[-1][1] if self._history else self.measure()
        return sum(memory.pss for memory in found.values())

    def table(self) -> str:
        """Return the last measurement as a table; measure if there is none."""
        if not self._history:
            self.measure()
        seconds, found = self._history[-1]
        return table(found, seconds)

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Plot the PSS of the processes over time, stacked, into an image file.

        Parameters
        ----------
        path
            The file; its suffix selects the format (``.png``, ``.svg``, ``.pdf``).

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If there are no measurements.
        """
        if not self._history:
            msg = "no measurements; call measure() first"
            raise ValueError(msg)
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        pids = sorted({pid for _, found in self._history for pid in found})
        times = [seconds for seconds, _ in self._history]
        none = ProcessMemory()
        series = [[found.get(pid, none).pss / 2**20 for _, found in self._history] for pid in pids]
        figure = Figure(figsize=(8, 4.5))
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        axes.stackplot(times, series, labels=[str(pid) for pid in pids])
        axes.set_xlabel("seconds")
        axes.set_ylabel("PSS, MiB")
        axes.legend(loc="upper left", fontsize="small", title="PID")
        figure.savefig(path)


_COLUMNS = ("rss", "pss", "uss", "shared", "shared_file", "tensors")


def table(found: dict[int, ProcessMemory], seconds: float | None = None) -> str:
    """Return a table of processes with sizes in MiB, and the sum of PSS in the last line."""
    rows: list[Sequence[str]] = [("time", "PID", *_COLUMNS)]
    when = "" if seconds is None else f"{seconds:.1f}"
    for pid, memory in found.items():
        sizes = asdict(memory)
        rows.append((when, str(pid), *(f"{sizes[name] / 2**20:.1f}" for name in _COLUMNS)))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    total = sum(memory.pss for memory in found.values()) / 2**20
    return "\n".join([*lines, f"MiB; PSS of all: {total:.1f}"])
