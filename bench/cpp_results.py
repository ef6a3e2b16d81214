"""Print the results of the C++ benchmarks beside their floors, and keep them if a second file is named.

A floor is what the machine itself takes: no program can be faster that does the same.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

# The floors are benchmarks themselves. The first pattern that fits counts.
FLOORS = [
    (r"acquire_.*/threads:([^1].*)", "", ""),  # how often the threads meet is chance
    (r"(allocate_|acquire_|issue_|send_).*", "two_atomic_operations", "two atomic operations"),
    (r"grow/(\d+)", r"reserve_fresh/\1", "the kernel reserves the pages"),
    (r"(encode_and_sign|check_and_decode)", "siphash_of/64", "the hash of 64 bytes"),
    (r"pass_descriptors/[1-9]", "pass_descriptors/0", "the message without descriptors"),
    (r"(join_session|attach_arena)", "futex_there_and_back", "the kernel wakes two sleepers"),
    (r"copy_into_warm/(\d+)", r"copy_private/\1", "a copy in private memory"),
    (r"copy_into_cold/(\d+)", r"copy_into_fresh/\1", "a copy into pages that the kernel provides"),
]
MACHINE = r"(two_atomic|cache_line|futex|reserve_fresh|copy_private|copy_into_fresh).*"
UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


def keep(source: Path, target: Path) -> None:
    """Copy Google Benchmark's file, without the names of the machine it ran on."""
    record = json.loads(source.read_text())
    for name in ("host_name", "executable"):
        record["context"].pop(name, None)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(record, indent=1) + "\n")


def times(record: dict[str, Any]) -> dict[str, float]:
    """Return the nanoseconds of each benchmark: the fastest of its repetitions."""
    found: dict[str, float] = {}
    for run in record["benchmarks"]:
        if run["run_type"] != "iteration" or run.get("error_occurred"):
            continue
        name = re.sub(r"/(iterations:\d+|real_time)", "", run["run_name"])
        time = run["real_time"] * UNITS[run["time_unit"]]
        found[name] = min(time, found.get(name, time))
    return found


def floor_of(name: str, found: dict[str, float]) -> tuple[float, str] | None:
    for pattern, floor, what in FLOORS:
        if match := re.fullmatch(pattern, name):
            time = found.get(match.expand(floor))
            return None if time is None else (time, what)
    return None


def shown(nanoseconds: float) -> str:
    unit = max(
        (unit for unit, size in UNITS.items() if nanoseconds >= size), key=UNITS.__getitem__, default="ns"
    )
    return f"{nanoseconds / UNITS[unit]:.3g} {unit}" if nanoseconds < 1e11 else f"{nanoseconds / 1e9:.0f} s"


def table(record: dict[str, Any]) -> str:
    """Return a line for each benchmark."""
    found = times(record)
    width = max(map(len, found), default=0)
    lines = [f"{'':{width}}  {'time':>8}  {'floor':>8}  {'times':>5}"]
    for name in sorted(found, key=lambda name: not re.match(MACHINE, name)):  # the machine itself first
        time = found[name]
        line = f"{name:{width}}  {shown(time):>8}"
        floor = floor_of(name, found)
        if floor is not None:
            line += f"  {shown(floor[0]):>8}  {time / floor[0]:>5.1f}  {floor[1]}"
        lines.append(line)
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(json.loads(Path(sys.argv[1]).read_text())))
    if len(sys.argv) > 2:
        keep(Path(sys.argv[1]), Path(sys.argv[2]))
