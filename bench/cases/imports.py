"""The cost of an import in a process that has imported NumPy."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench.model import Case, Goal, Measure, Probe, Row, Samples, Summary
from bench.options import Options

MODULES = {"shmtensor": "shmtensor", "torch-fd": "torch"}
SUBMODULES = {"shmtensor": "shmtensor.multiprocessing", "torch-fd": "torch.multiprocessing"}

# A program for a new interpreter: measures time and private memory of an import.
PROGRAM = """
import json, sys, time
import numpy

def private():
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) * 1024

before = private()
start = time.perf_counter()
__import__(sys.argv[1])
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "bytes": private() - before}))
"""


def _variants(peer: str, _options: Options) -> list[str]:
    return [MODULES[peer], SUBMODULES[peer]]


@contextmanager
def _probe(_peer: str, _options: Options) -> Iterator[Probe]:
    def measure(variant: str) -> Measure:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, variant], check=True, capture_output=True, timeout=60
        )
        found: Measure = json.loads(done.stdout)
        return found

    yield measure


def _rows(samples: Samples) -> list[Row]:
    rows = []
    for peer, module in MODULES.items():
        for name in (module, SUBMODULES[peer]):
            if not samples.has(peer, name):
                continue
            goal = peer == "shmtensor" and name == module
            seconds = Summary.of(samples.values(peer, name, "seconds"), 1e3)
            nbytes = Summary.of(samples.values(peer, name, "bytes"), 1e-6)
            rows.append(Row(f"import {name}", peer, "ms", seconds, goal=Goal(15) if goal else None))
            rows.append(Row(f"import {name}", peer, "MB", nbytes, goal=Goal(3) if goal else None))
    return rows


CASE = Case(
    name="import",
    summary="time and private memory of an import on top of NumPy",
    peers=tuple(MODULES),
    variants=_variants,
    probe=_probe,
    rows=_rows,
)
