"""Runs Spin on the block protocol: `make model`.

Each configuration is searched exhaustively and must be correct; each mutation breaks one rule of the protocol
and must fail, which shows that the model can fail.
"""

from __future__ import annotations

import argparse
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
MEMORY_MB = 7000
SECONDS = 900.0


@dataclass(frozen=True)
class Case:
    name: str
    defines: str
    wrong: bool = False  # a mutation: an error must be found


RIGHT = [
    Case("two blocks, two deaths", "B=2 T=1 OPS=2 DEATHS=2"),
    Case("two tickets, two deaths", "B=1 T=2 OPS=2 ALLOCS=1 DEATHS=2"),
    Case("messages loaded twice, reuse", "B=1 T=1 OPS=2 ALLOCS=2 DEATHS=1 READS=2 START_HELD=1"),
    Case("fork", "B=1 T=1 OPS=1 ALLOCS=1 DEATHS=2 FORK=1 START_HELD=3"),
    Case("fork, the child in a plane before", "B=1 T=1 OPS=1 ALLOCS=1 DEATHS=2 FORK=1 START_HELD=3 PLANES=3"),
    Case("a receiver forks", "B=1 T=1 OPS=2 ALLOCS=1 DEATHS=1 FORK=1 START_HELD=1 PLANES=3"),
    Case("fork with two blocks", "B=2 T=1 OPS=1 ALLOCS=2 DEATHS=2 FORK=1 START_HELD=3"),
    Case("a send fails during gc", "B=1 T=1 OPS=2 ALLOCS=1 DEATHS=1 UNSEND=1 COLLECTS=1"),
    Case("the manager dies too", "B=1 T=1 OPS=1 ALLOCS=1 DEATHS=1 MANAGER_DEATHS=1 START_HELD=3"),
    Case("a plane of its own", "B=1 T=1 OPS=2 ALLOCS=1 DEATHS=2 PLANES=2"),
    Case("fork, the child in a new plane", "B=1 T=1 OPS=1 ALLOCS=1 DEATHS=2 FORK=1 START_HELD=3 PLANES=2"),
]

SMALL = "B=1 T=1 ALLOCS=1 DEATHS=0 START_HELD=3 "
WRONG = [
    Case("no epoch", "B=1 T=2 ALLOCS=1 DEATHS=0 START_HELD=3 OPS=2 NO_EPOCH"),
    Case("holders are not read again after the tickets", SMALL + "OPS=2 HOLDERS_ONCE"),
    Case(
        "a fork moves no epoch", "B=1 T=1 OPS=2 ALLOCS=1 DEATHS=0 FORK=1 START_HELD=1 PLANES=3 NO_FORK_EPOCH"
    ),
    Case("the ticket is claimed before the bit is set", SMALL + "OPS=2 CLAIM_FIRST"),
    Case("a hold without a ticket moves no epoch", SMALL + "OPS=2 READS=2 HOLD_WITHOUT_EPOCH"),
    Case("a sweep tries only what the dead one held", "B=1 T=1 OPS=1 DEATHS=1 START_HELD=3 SWEEP_OWN_ONLY"),
    Case("a block is live before its owner's bit", "B=1 T=1 OPS=3 ALLOCS=2 DEATHS=0 START_HELD=3 LIVE_FIRST"),
    Case(
        "a freed block keeps its generation",
        "B=1 T=2 OPS=3 DEATHS=0 READS=2 START_HELD=3 SAME_GENERATION",
    ),
    Case("planes are not read again after the tickets", SMALL + "OPS=2 PLANES=2 PLANES_ONCE"),
]


@dataclass
class Outcome:
    error: str | None
    states: int
    megabytes: float
    seconds: float
    complete: bool


def search(case: Case) -> Outcome:
    """Build the verifier of one case and run it."""
    defines = [f"-D{word}" for word in case.defines.split()]
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        subprocess.run(
            ["spin", "-a", *defines, HERE / "block.pml"], cwd=folder, check=True, stdout=subprocess.DEVNULL
        )
        options = ["-O1", "-w", "-DSAFETY", "-DCOLLAPSE", f"-DMEMLIM={MEMORY_MB}"]
        subprocess.run(["cc", *options, "-o", "pan", "pan.c"], cwd=folder, check=True)
        verifier = ["./pan", "-m200000"]
        done = subprocess.run(
            verifier, check=False, cwd=folder, text=True, stdout=subprocess.PIPE, timeout=SECONDS
        )
        seconds = time.monotonic() - begin
    error = re.search(r"^pan:\d+: (.*?) \(at depth", out := done.stdout, re.MULTILINE)
    states = int(re.search(r"(\d+) states, stored", out).group(1))
    memory = float(re.search(r"([\d.]+)\s+total actual memory usage", out).group(1))
    complete = "Search not completed" not in out or error is not None
    return Outcome(error.group(1) if error else None, states, memory, seconds, complete)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", action="store_true", help="only these: they are quick")
    args = parser.parse_args()
    if not (shutil.which("spin") and shutil.which("cc")):
        print("the model needs Spin and a C compiler: apt-get install spin gcc", file=sys.stderr)
        return 2
    failed = 0
    print(f"{'result':8} {'states':>12} {'MB':>7} {'s':>7}  case")
    for case in [
        *([] if args.mutations else RIGHT),
        *(Case(c.name, c.defines, True) for c in WRONG),
    ]:
        outcome = search(case)
        good = outcome.complete and (outcome.error is not None) == case.wrong
        word = ("found" if case.wrong else "right") if good else "FAILED"
        print(
            f"{word:8} {outcome.states:12,} {outcome.megabytes:7.0f} {outcome.seconds:7.1f}  {case.name}",
            flush=True,
        )
        if not good:
            print(f"    {outcome.error or 'no error was found'}; {case.defines}", flush=True)
            failed += 1
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.0f} s of processor time")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
