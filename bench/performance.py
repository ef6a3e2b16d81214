"""The figures of docs/performance.md and README.md: ``python -m bench.performance``.

Writes the table of the page, and three lines of README.md, from the files in bench/results. A line is of the
first machine that has measured it, on both pages, and is left out if none has.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.report import markdown_table

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "bench" / "results"
PAGES = (ROOT / "README.md", ROOT / "docs" / "performance.md")
MACHINES = ("intel-xeon", "amd-epyc", "nvidia-h100")  # how names of result files begin
TIMES = {"us": 1.0, "us each": 1.0, "ms": 1e3}  # units, in microseconds

PICKLE, TORCH, VLLM = {"pickle": "pickle"}, {"torch": "torch-fd"}, {"vLLM": "vllm"}
SEGMENTS = {"`shared_memory`": "SharedMemory"}
QUEUE = "shmtensor-queue"  # st.Queue
ALL = TORCH | SEGMENTS | PICKLE


@dataclass(frozen=True, eq=False)
class Line:
    """A line of the table."""

    what: str  # its name
    source: str  # a case of the benchmarks, or the program or file that has the figures
    row: str  # what was measured, as the source names it
    others: Mapping[str, str]  # the peers beside shmtensor: name in the table -> name in the source
    in_readme: bool = False  # README.md has the line, too
    ours: str = "shmtensor"  # the name of shmtensor in the source


LINES = (
    Line("round trip of 64 bytes", "queue", "64 bytes", TORCH | PICKLE | VLLM, ours=QUEUE),
    Line(
        "round trip of an 8 MiB tensor",
        "queue",
        "8 MiB tensor",
        TORCH | PICKLE | {"iceoryx2": "iceoryx2", "Ray": "ray-graph"} | VLLM,
        in_readme=True,
        ours=QUEUE,
    ),
    Line(
        "round trip of a list of 100 tensors",
        "queue",
        "list of 100 tensors",
        TORCH | PICKLE,
        ours=QUEUE,
    ),
    Line("round trip of a fresh 64 MiB tensor", "handover", "64 MiB, fresh", ALL),
    Line("a task of a pool with 1 MiB", "pool", "1 MiB", ALL),
    Line("system calls that 1 MiB adds to a message", "syscalls", "1 MiB, same: of its own", ALL),
    Line(
        "a small int over a queue", "queue", "small ints", TORCH | PICKLE | VLLM, in_readme=True, ours=QUEUE
    ),
    Line("an idle consumer", "queue", "waiting, idle", PICKLE | VLLM, ours=QUEUE),
    Line(
        "64 bytes to a process that sleeps, and an answer",
        "wakeup",
        "64 bytes, asleep",
        TORCH | PICKLE,
        ours=QUEUE,
    ),
    Line("the same, both on one processor", "wakeup", "64 bytes, one processor", TORCH | PICKLE, ours=QUEUE),
    Line(
        "1 MiB to 4 readers of a broadcast, and answers",
        "broadcast",
        "to 4, acknowledged by all: time",
        VLLM,
    ),
    Line(
        "a pipe: a message and back",
        "pipes",
        '("step", 3), and back',
        {"`multiprocessing`": "multiprocessing"},
        ours="drop-in",
    ),
    Line("make and release a tensor of 4 KiB", "alloc", "4 KiB", TORCH | SEGMENTS),
    Line("copy 64 KiB into shared memory", "copyin", "64 KiB", ALL),
    Line("copy 64 MiB into shared memory", "copyin", "64 MiB", ALL),
    Line("the same, into memory that was never used", "copyin", "64 MiB, cold", ALL),
    Line(
        "live tensors of two processes, at 1,024 descriptors",
        "most",
        "1024 descriptors allowed",
        TORCH | SEGMENTS,
        in_readme=True,
    ),
    Line("memory of a tensor beside its bytes", "memory", "beyond the 64 bytes", TORCH),
    Line("memory of a killed process is free after", "kill", "200 kills", {}),
    Line("import on top of NumPy", "import", "import shmtensor", {}),
    Line("a worker of the start method `server`", "launch", "one worker", {}),
    Line("`spawn` of 8 processes", "launch", "spawn of 8", {"torch": "torch"}),
    Line("a message with a frame of 100 MB", "buffers", "frame of 100 MB", PICKLE),
    Line("DataLoader: 20 tensors of 4 KiB", "dataloader", "sample, shmtensor", {"torch": ""}),
    Line("DataLoader: a batch of 38 MB", "dataloader", "batch, shmtensor", {"torch": ""}),
    Line(
        "an image of 150 KB from a cache",
        "cache",
        "get an image",
        {"`Manager().dict()`": "Manager().dict()"},
        ours="st.SharedCache",
    ),
    Line(
        "second epoch of 5,000 images of 5 ms",
        "cache",
        "second epoch of 5,000 images of 5 ms, 2 workers",
        {"no cache": "no cache"},
        ours="st.SharedCache",
    ),
    Line("Dask: a private array of 256 MiB", "dask", "array, time", {"Dask": ""}),
    Line("Dask: a shuffle of 1 GB", "dask", "shuffle, time", {"Dask": ""}),
    Line("joblib: a private array of 32 MiB", "joblib", "argument, loky", {"joblib": ""}),
    Line("Ray: an actor reads 64 MiB", "ray", "read, store", {"Ray": ""}),
    Line("the same, Ray with zero copies", "ray", "read, zero-copy", {"Ray": ""}),
    Line("Ray: a message without a tensor", "ray", "empty, store", {"Ray": ""}),
    Line("a hand-over among 1,023 processes", "scale", "hand-over, 1023", {"4:": "4"}),
    Line("a killed manager of 1,023 processes is replaced", "scale", "take-over, 1023", {"4:": "4"}),
    Line("a fresh tensor of 4 MiB on the GPU", "round_trip", "fresh", {"torch": "torch"}),
    Line("the same, torch's, with `st.install`", "round_trip", "fresh", {}, ours="torch, after st.install"),
    Line(
        "`DataLoader(pin_memory=True)`: a batch of 38 MB",
        "batches",
        "ms",
        {"torch": "torch, pinned"},
        ours="shmtensor, pinned",
    ),
    Line("16 GB of weights to two engines", "weights", "read", {"torch": "torch"}),
    Line(
        "a `put` while a kernel of 10 ms runs",
        "flight",
        "10 ms",
        {'`set_sync("event")`': "shmtensor, event", "torch": "torch"},
        ours="shmtensor, host",
    ),
)


@dataclass(frozen=True)
class Figure:
    """A median. That of a time is in microseconds and has no unit."""

    value: float
    unit: str = ""

    def __str__(self) -> str:
        if self.unit == "tensors":
            return "over 200,000" if self.value >= 200_000 else f"{self.value:,.0f}"  # the case ends there
        if self.unit:
            return f"{_number(self.value)} {self.unit}"
        size, unit = next((one for one in ((1e6, "s"), (1e3, "ms")) if self.value >= one[0]), (1, "us"))
        return f"{_number(self.value / size)} {unit}"


def _number(value: float) -> str:
    """Return a number with two significant digits; three from 100 on."""
    digits = 0 if value >= 9.95 or value == 0 else 1 if value >= 0.995 else 2
    return f"{value:,.{digits}f}"


@dataclass
class Machine:
    """What was measured on a machine: the figures by source, row and peer, and the dates by source."""

    name: str
    figures: dict[tuple[str, str, str], Figure]
    dates: dict[str, str]

    def cells(self, line: Line) -> list[str] | None:
        """Return the cells of a line; None if shmtensor was not measured."""
        ours = self.figures.get((line.source, line.row, line.ours))
        if ours is None:
            return None
        found = {name: self.figures.get((line.source, line.row, peer)) for name, peer in line.others.items()}
        others = [f"{name} {one}".removesuffix(f" {ours.unit}") for name, one in found.items() if one]
        return [line.what, str(ours), ", ".join(others)]

    def heading(self, lines: list[Line]) -> str:
        """Return the machine, and the dates of some lines."""
        dates = sorted({self.dates[line.source] for line in lines})
        return f"{self.name}, {' to '.join(dict.fromkeys([dates[0], dates[-1]]))}"


def _of(record: dict[str, Any], source: str) -> Iterator[tuple[str, str, str, Figure]]:
    """Yield source, row, peer and figure of all that a result file contains."""
    for result in record.get("results", ()):
        for row in result["rows"]:
            value, unit = row["summary"]["median"], row["unit"]
            if unit in TIMES:
                value, unit = value * TIMES[unit], ""
            yield result["case"], row["what"], row["peer"], Figure(value, unit)
    for one in record.get("comparisons", ()):
        for peer, times in (("shmtensor", one["ours"]), ("", one["theirs"])):
            yield source, one["what"], peer, Figure(statistics.median(times) * 1e6)
    starts = {name: times for name, times in record.get("seen", {}).items() if isinstance(times[0], float)}
    for name, times in starts.items():
        what, peer = name.split(", ")
        yield source, what, {"server": "shmtensor"}.get(peer, peer), Figure(statistics.median(times) * 1e6)
    few, many = ({}, {}) if "sizes" not in record else (record["sizes"][1], record["sizes"][5])
    for name in few:
        for peer, size in (("shmtensor", many), ("4", few)):
            yield source, f"{name}, {many['members']}", peer, Figure(size[name] * 1e6)
    for gpu_source, row, peer, value in _of_gpu(record):
        yield gpu_source, row, peer, Figure(value)


def _of_gpu(record: dict[str, Any]) -> Iterator[tuple[str, str, str, float]]:
    """Yield source, row, peer and microseconds of what a GPU report contains."""
    for peer, rows in record.get("round_trip", {}).items():
        for row, times in rows.items():
            yield "round_trip", row, peer, times["median"]
    for peer, found in record.get("weights", {}).items():
        yield "weights", "read", peer, found["ms"]["read"] * 1e3
    for peer, found in record.get("batches", {}).items():
        yield "batches", "ms", peer, found["images of 38 MB"]["ms"] * 1e3
    for peer, kernels in record.get("flight", {}).items():
        for kernel, times in kernels.items():
            yield "flight", kernel, peer, times["put"] * 1e3


def machines(folder: Path = RESULTS) -> list[Machine]:
    """Return what the result files of a folder contain."""
    found = []
    for stem in MACHINES:
        machine = Machine("", {}, {})
        for file in sorted(folder.glob(f"{stem}*.json")):
            record = json.loads(file.read_text())
            dates = {result["case"]: result["date"] for result in record.get("results", ())}
            for source, row, peer, figure in _of(record, file.stem.removeprefix(f"{stem}-")):
                machine.figures.setdefault((source, row, peer), figure)
                machine.dates[source] = dates.get(source, record["date"][:10])
            machine.name = _name(record)
        found.append(machine)
    return found


def _name(record: dict[str, Any]) -> str:
    machine = record["machine"]
    gpu = record["nvidia-smi"][1].split(",")[0] + "; " if "nvidia-smi" in record else ""
    processor = re.sub(r"\(R\)| Processor", "", machine["processor"])
    return f"{gpu}{processor}, {machine['processors']} processors, {machine['memory_kib'] / 2**20:.0f} GiB"


def _machine_of_each(found: list[Machine]) -> dict[Line, Machine]:
    """Return the machine of each line that one has measured."""
    first = {line: next((one for one in found if one.cells(line)), None) for line in LINES}
    return {line: machine for line, machine in first.items() if machine is not None}


def table(found: list[Machine]) -> str:
    """Return the table of the page, with the lines of a machine below its name."""
    of = _machine_of_each(found)
    lines: list[Sequence[str]] = []
    for machine in found:
        its = [line for line, its_machine in of.items() if its_machine is machine]
        if its:
            lines.append((f"**{machine.heading(its)}**", "", ""))
        lines += [machine.cells(line) or [] for line in its]
    return "\n".join(markdown_table(("", "shmtensor", "others"), lines))


def readme(found: list[Machine]) -> str:
    """Return the lines of README.md, and which machine each is of; the page has the dates."""
    lines = []
    numbers: dict[str, list[str]] = {}  # of the lines of each machine
    for line, machine in _machine_of_each(found).items():
        if line.in_readme:
            what, ours, others = machine.cells(line) or []
            lines.append(f"- {what[0].upper()}{what[1:]}: **{ours}** ({', '.join(others.split(', ')[:2])})")
            numbers.setdefault(machine.name, []).append(str(len(lines)))
    of = [f"line{'s' * (len(its) > 1)} {', '.join(its)}: {name}" for name, its in numbers.items()]
    return "\n".join([*lines, "", f"Medians; {'; '.join(of)}."])


def with_figures(name: str, text: str, found: list[Machine]) -> str:
    """Return the text of a page with the figures between its marks."""
    new = readme(found) if name == "README.md" else table(found)
    pattern = r"(<!-- [^>]*\[?start:(?:numbers|table)\]? -->\n)\n?.*?\n?(<!-- [^>]*\[?end:)"
    return re.sub(pattern, lambda match: f"{match[1]}\n{new}\n\n{match[2]}", text, flags=re.DOTALL)


def main() -> None:
    found = machines()
    for page in PAGES:
        page.write_text(with_figures(page.name, page.read_text(), found))


if __name__ == "__main__":
    main()
