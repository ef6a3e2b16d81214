"""Starting workers: the start method server compared with forkserver and torch's spawn.

    python -m bench launch [--json FILE] [--rounds N] [--only NAME ...]

Each configuration runs in a fresh interpreter. torch is measured if it is installed.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.launch_program import PROGRAMS
from bench.machine import write_record
from bench.options import program_parser

PROGRAM = Path(__file__).parents[1] / "launch_program.py"


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    work: str
    measured: str
    wanted: str
    ratio: float | None
    ok: bool


def run(name: str, rounds: int) -> float | dict[str, float]:
    """Run one program in a fresh interpreter and return its result."""
    command = [sys.executable, str(PROGRAM), name, str(rounds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    answer: float | dict[str, float] = json.loads(done.stdout)
    return answer


def lines(seen: dict[str, list[float | dict[str, float]]]) -> list[Line]:
    """Return the lines of the table from several runs of each program."""

    def of(name: str) -> float:
        return statistics.median(seen[name])  # type: ignore[type-var, arg-type]

    def beside(what: str, peer: str, wanted: str, least: float, name: str = "") -> None:
        """Add a line for what must be that many times faster than a peer, if both were measured."""
        if {f"{what}, server", f"{what}, {peer}"} <= set(seen):
            ours, other = of(f"{what}, server"), of(f"{what}, {peer}")
            text = f"{ours * 1e3:.1f} ms against {other * 1e3:.1f} ms"
            table.append(Line(name or what, text, wanted, other / ours, other >= least * ours))

    table: list[Line] = []
    if "one worker, server" in seen:
        one = of("one worker, server")
        table.append(Line("a worker ready", f"{one * 1e3:.1f} ms", "8 ms", None, one <= 8e-3))
    beside("8 workers", "forkserver", "at most 1.2 times forkserver", 1 / 1.2)
    beside("spawn of 8", "torch", "20 times faster than torch", 20)
    if "private bytes, server" in seen:
        used = of("private bytes, server")
        table.append(Line("idle worker, private", f"{used / 1e6:.1f} MB", "6 MB", None, used <= 6e6))
    if "calls over a pool, server" in seen:
        calls = [one for one in seen["calls over a pool, server"] if isinstance(one, dict)]
        ratio = statistics.median(call["ratio"] for call in calls)
        by_id, plain = (statistics.median(call[key] for call in calls) for key in ("by id", "importable"))
        text = f"{by_id * 1e6:.0f} us against {plain * 1e6:.0f} us"
        table.append(Line("call by id", text, "at most 1.2 times importable", ratio, ratio <= 1.2))
    beside("torch DataLoader of 4", "forkserver", "the right values", 0, "torch DataLoader")
    return table


def main(arguments: list[str]) -> int:
    parser = program_parser("launch", __doc__)
    parser.add_argument("--rounds", type=int, default=20, help="starts in each process")
    parser.add_argument("--runs", type=int, default=3, help="processes for each configuration, in turns")
    parser.add_argument("--only", nargs="*", default=list(PROGRAMS), choices=list(PROGRAMS))
    chosen = parser.parse_args(arguments)
    names = [name for name in chosen.only if "torch" not in name or importlib.util.find_spec("torch")]
    seen: dict[str, list[float | dict[str, float]]] = {name: [] for name in names}
    for _ in range(chosen.runs):
        for name in names:
            seen[name].append(run(name, chosen.rounds))
    table = lines(seen)
    for line in table:
        ratio = "" if line.ratio is None else f" ({line.ratio:.2f})"
        print(f"{'ok  ' if line.ok else 'MISS'} {line.work}: {line.measured}{ratio}; wanted: {line.wanted}")
    if chosen.json:
        write_record(chosen.json, {"seen": seen})
    return 0 if all(line.ok for line in table) else 1
