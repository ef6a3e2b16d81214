"""The memory of a live tensor of 64 bytes, in both processes and in shared memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.consumer import consumer_process
from bench.model import Case, Goal, Measure, Probe, Row, Samples, Summary
from bench.options import Options
from bench.peers import Peer, load_peer

NBYTES = 64
COUNTS = {"shmtensor": 200_000, "shmtensor-fs": 200_000, "torch-fd": 2_000, "torch-fs": 2_000}
STEP = 1_000


def _keep(_peer: Peer, inbox: Any, outbox: Any) -> None:
    """Keep everything received."""
    kept = []
    while (message := inbox.get()) is not None:
        kept.append(message)
        outbox.put(len(kept))


def _proportional(pid: int) -> int:
    """Return the PSS of a process in bytes."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the kernel does not report the memory")


@contextmanager
def _probe(peer_name: str, options: Options) -> Iterator[Probe]:
    peer = load_peer(peer_name)
    count = 100 if options.quick else COUNTS[peer_name]
    step = min(count, STEP)

    def measure(_variant: str) -> Measure:
        with consumer_process(peer, options, _keep) as consumer:
            kept: list[Any] = []

            def add() -> None:
                more = [peer.fresh(NBYTES) for _ in range(step)]
                consumer.hand_over(more)
                kept.append(more)

            def both() -> int:
                return _proportional(os.getpid()) + _proportional(consumer.process.pid)

            add()  # opens the connection
            before = both()
            for _ in range(count // step):
                add()
            return {"bytes": (both() - before) / count}

    yield measure


def _rows(samples: Samples) -> list[Row]:
    rows = []
    for peer in COUNTS:
        if samples.has(peer, "64 bytes"):
            each = Summary.of([v - NBYTES for v in samples.values(peer, "64 bytes", "bytes")])
            goal = Goal(512) if peer == "shmtensor" else None
            rows.append(Row("beyond the 64 bytes", peer, "bytes", each, goal=goal))
    return rows


CASE = Case(
    name="memory",
    summary="a live tensor of 64 bytes in both processes, Python objects included",
    peers=tuple(COUNTS),
    variants=lambda _peer, _options: ["64 bytes"],
    probe=_probe,
    rows=_rows,
    rounds=3,
    warm_up=0,
)
