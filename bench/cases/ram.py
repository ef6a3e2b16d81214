"""One copy of the data for all workers: the post "Demystify RAM Usage in Multi-Process Data Loaders".

``python -m bench ram`` builds 860,001 records like COCO's, runs the set-ups of the post and ours,
each in programs of its own, measures them from outside, and prints the post's tables for this machine and
the goals.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.cases.ram_report import goals_of, table_of
from bench.cases.ram_setups import SETUPS
from bench.machine import write_record
from bench.options import program_parser
from shmtensor.memory import MemoryMonitor, ProcessMemory, process_tree

COUNT = 860_001
DEADLINE = 1200.0


def _start(name: str, count: int, path: str | None, rank: int, run: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "bench.cases.ram_setups", name, str(count), *([path] if path else [])]
    env = {key: value for key, value in os.environ.items() if not key.startswith("SHMTENSOR_")}
    env |= {"RANK": str(rank)} | ({"SHMTENSOR_SESSION": run} if "ours" in name else {})
    return subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _managers(run: str) -> list[int]:
    """Return the manager of the run's session, which is not a child of any program."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):  # not a process, or it has ended
            command, environment = ((folder / name).read_bytes() for name in ("cmdline", "environ"))
            if b"shmtensor-man" in command and run.encode() in environment:
                found.append(int(folder.name))
    return found


def run_setup(name: str, count: int, path: str | None) -> dict[str, Any]:
    """Run one set-up; return its processes' memory, and PSS over time."""
    ranks = SETUPS[name][2] if name in SETUPS else 1
    run = f"bench ram {os.getpid()} {name} {time.monotonic()}"
    monitor = MemoryMonitor([])
    programs = []
    start = time.monotonic()
    roles: dict[int, str] = {}
    nbytes = 0
    second_alone = 0
    try:
        for rank in range(ranks):
            programs.append(_start(name, count, path, rank, run))
            line = None
            while line is None:
                if time.monotonic() - start > DEADLINE:
                    raise TimeoutError(f"{name} takes too long")
                line = _line(programs[-1], 0.5)
                pids = [pid for program in programs for pid in process_tree(program.pid)]
                found = _measure(monitor, pids)
                together = sum(memory.pss for memory in found.values())
            answer = json.loads(line)
            roles |= {int(pid): role for pid, role in answer["roles"].items()}
            nbytes = max(nbytes, answer["nbytes"])
            if rank == 0:
                second_alone = together
        helpers = [pid for program in programs for pid in process_tree(program.pid) if pid not in roles]
        pids = [*roles, *helpers, *_managers(run)]
        found = _measure(monitor, pids)
    finally:
        for program in programs:
            program.communicate("\n", timeout=60)
    return {
        "setup": name,
        "nbytes": nbytes,
        "seconds": time.monotonic() - start,
        "processes": [
            {"pid": pid, "role": roles.get(pid, "helper"), **vars(memory)} for pid, memory in found.items()
        ],
        "pss": sum(memory.pss for memory in found.values()),
        "pss of first rank": second_alone,
    }


def _measure(monitor: MemoryMonitor, pids: list[int]) -> dict[int, ProcessMemory]:
    monitor._pids = pids
    return monitor.measure()


def _line(program: subprocess.Popen[str], timeout: float) -> str | None:
    ready, _, _ = select.select([program.stdout], [], [], timeout)
    if not ready:
        return None
    assert program.stdout is not None
    line = program.stdout.readline()
    if not line:
        raise RuntimeError(f"a set-up ended with {program.wait()}")
    return line


def main(words: list[str]) -> int:
    """Run the case; the exit status is 1 if a set-up could not be run."""
    parser = program_parser("ram", __doc__)
    parser.add_argument("--annotations", type=Path, help="a real instances_train2017.json instead")
    parser.add_argument("--records", type=int, default=COUNT, help=f"how many (default {COUNT})")
    parser.add_argument("--setups", nargs="+", choices=SETUPS, default=list(SETUPS))
    options = parser.parse_args(words)
    path = str(options.annotations) if options.annotations else None
    results: dict[str, Any] = {"records": options.records, "setups": {}, "absent": {}}
    speed = subprocess.run(
        [sys.executable, "-m", "bench.cases.ram_speed", *([path] if path else [])],
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    results["speed"] = json.loads(speed.stdout)
    results["empty"] = run_setup("empty", 0, None)
    for name in options.setups:
        try:
            if SETUPS[name][0] == "ours":
                results.setdefault("without data", {})[name] = run_setup(name, 0, None)
            results["setups"][name] = run_setup(name, options.records, path)
            print(table_of(results["setups"][name]), flush=True)
        except (RuntimeError, TimeoutError, subprocess.SubprocessError) as error:
            results["absent"][name] = str(error)
            print(f"{name}: {error}", file=sys.stderr)
        if options.json:  # after each set-up, so that an interrupted run keeps its results
            write_record(options.json, results)
    print(goals_of(results))
    return 1 if results["absent"] else 0
