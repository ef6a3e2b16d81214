"""System calls of a warm hand-over, in both processes and their helpers."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.model import Case, Goal, Measure, Probe, Row, Samples, Summary
from bench.options import Options
from bench.peers import MULTIPROCESSING_PEERS, PEERS

VARIANTS = ["same", "fresh"]
STRACE = ("strace", "-f", "-qq", "-c", "-U", "calls,name")
FEW, MANY = 100, 1_600


def _count(peer: str, what: str, messages: int) -> int:
    """Run `bench.syscall_program` and its descendants under strace."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "calls"
        program = [sys.executable, "-m", "bench.syscall_program", peer, what, str(messages)]
        command = [*STRACE, "-o", str(report), *program]
        subprocess.run(command, check=True, timeout=150, stdout=subprocess.DEVNULL)
        return _total(report.read_text())


def _total(report: str) -> int:
    """Return the calls in strace's table, without futex: waiting for a lock depends on the moment."""
    calls = 0
    for line in report.splitlines():
        words = line.split()
        if len(words) == 2 and words[0].isdigit() and words[1] not in ("total", "futex"):
            calls += int(words[0])
    return calls


@contextmanager
def _probe(peer: str, options: Options) -> Iterator[Probe]:
    if shutil.which("strace") is None:
        raise FileNotFoundError("strace is not installed")
    few, many = (2, 12) if options.quick else (FEW, MANY)

    def each(what: str) -> float:
        """Return the calls per message; those of start and exit cancel out."""
        return (_count(peer, what, many) - _count(peer, what, few)) / (many - few)

    def measure(variant: str) -> Measure:
        return {"tensor": each(variant), "bytes": each("bytes")}

    yield measure


def _rows(samples: Samples) -> list[Row]:
    rows = []
    for variant in VARIANTS:
        for peer in PEERS:
            if samples.has(peer, variant):
                calls, bare = (samples.values(peer, variant, what) for what in ("tensor", "bytes"))
                more = [max(one - base, 0.0) for one, base in zip(calls, bare, strict=True)]
                rows.append(Row(f"1 MiB, {variant}", peer, "calls", Summary.of(calls)))
                # The goal is zero; the remainder is noise of starting and ending, divided among the messages.
                goal = Goal(0.1) if peer == "shmtensor" else None
                rows.append(Row(f"1 MiB, {variant}: of its own", peer, "calls", Summary.of(more), goal=goal))
    return rows


CASE = Case(
    name="syscalls",
    summary="system calls of a hand-over and its acknowledgement, all processes together",
    peers=MULTIPROCESSING_PEERS,
    variants=lambda _peer, options: ["same"] if options.quick else VARIANTS,
    probe=_probe,
    rows=_rows,
    baseline="64 bytes over the same queue",
    rounds=1,
    warm_up=0,
    timeout=500.0,
)
