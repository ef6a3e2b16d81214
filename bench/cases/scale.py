"""What grows with the members of a session and with its blocks: memory, descriptors, address space, times.

    python -m bench scale [--json FILE] [--rounds N] [--quick]

Each size runs in a fresh interpreter, one after the other; a figure is the least of the rounds, since
whatever else the machine does only adds to it. 1,023 members, which leave a slot for a forked child, need
6 GiB of memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

from bench.machine import write_record
from bench.options import add_rounds, program_parser
from bench.report import markdown_table, number

# Members and blocks: one of both grows.
SIZES = [(1, 10_000), (4, 10_000), (16, 10_000), (64, 10_000), (256, 10_000), (1023, 10_000)]
SIZES += [(64, 1_000), (64, 100_000), (64, 1_000_000)]
QUICK = [(1, 10), (3, 30)]

# Units of what is measured, and how many bytes or seconds each is.
UNITS = {"us": 1e-6, "ms": 1e-3, "": 1, "MiB": 1 << 20, "GiB": 1 << 30}
FIGURES = {
    "join": "ms",
    "join, manager": "ms",
    "make and release": "us",
    "hand-over": "us",
    "hand-over, common queue": "us",
    "fork": "ms",
    "stats": "ms",
    "ls": "ms",
    "gc": "ms",
    "death, manager": "ms",
    "take-over": "ms",
    "shared memory": "MiB",
    "manager, private": "MiB",
    "manager, descriptors": "",
    "member, descriptors": "",
    "member, mappings": "",
    "member, page tables": "MiB",
    "page tables of a GiB": "MiB",
    "member, address space": "GiB",
}


def _run(members: int, blocks: int) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.scale_session", str(members), str(blocks)]
    own = {"SHMTENSOR_SESSION": f"scale of {os.getpid()} at {time.time_ns()}"}  # its manager is killed
    done = subprocess.run(
        command, env=os.environ | own, stdout=subprocess.PIPE, check=True, text=True, timeout=600
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _least(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {name: min(found[name] for found in rounds) for name in rounds[0]}


def table(sizes: list[dict[str, float]]) -> list[str]:
    """Return a table with a column for each size."""
    headings = ["members / blocks", *(f"{found['members']:,} / {found['blocks']:,}" for found in sizes)]
    lines = []
    for name, unit in FIGURES.items():
        cells = [number(found[name] / UNITS[unit]) if name in found else "" for found in sizes]
        lines.append([f"{name} ({unit})" if unit else name, *cells])
    return markdown_table(headings, lines)


def main(arguments: list[str]) -> int:
    parser = program_parser("scale", __doc__)
    add_rounds(parser, 3, "sessions of each size", "two small sizes")
    chosen = parser.parse_args(arguments)
    sizes = QUICK if chosen.quick else SIZES
    seen: list[list[dict[str, float]]] = [[] for _ in sizes]
    for _ in range(chosen.rounds):
        for rounds, size in zip(seen, sizes, strict=True):
            rounds.append(_run(*size))
    least = [_least(rounds) for rounds in seen]
    print("\n".join(table(least)))
    if chosen.json:
        write_record(chosen.json, {"sizes": least, "rounds": seen})
    return 0
