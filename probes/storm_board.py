"""What the processes of `probes.storm` report to each other without the library that they test: two files."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

RUN, DRAIN, END = range(3)  # orders
STARTING, GET, CHECK, SETTLE, OTHER = range(5)  # what a worker does
# Columns of a worker's row. Those after COUNTS add up over all processes that had the row.
PID, READY, DRAINED, PHASE, SUSPECT, BEAT = range(6)
COUNTS = 6
ROUNDS, SENT, FULL, RECEIVED, FORWARDED, OVERWRITTEN, CHECKS, BYTES = range(COUNTS, COUNTS + 8)
NAMES = ("rounds", "sent", "full", "messages", "forwarded", "overwritten", "checks", "bytes")
COLUMNS = COUNTS + len(NAMES)


class Board:
    """A table with a row for each worker, after one with the order; and the list of events."""

    def __init__(self, folder: Path, workers: int) -> None:
        (folder / "events").touch()
        mode: Any = "r+" if (folder / "board").exists() else "w+"
        self.folder = folder
        self.rows = np.memmap(folder / "board", np.int64, mode, shape=(1 + workers, COLUMNS))
        self._events = os.open(folder / "events", os.O_RDWR | os.O_APPEND)
        self._read = 0

    @property
    def order(self) -> int:
        """The order to all workers."""
        return int(self.rows[0, 0])

    @order.setter
    def order(self, order: int) -> None:
        self.rows[0, 0] = order

    def enter(self, rank: int, phase: int, suspect: int = 0) -> None:
        """Note what a worker does from now on, and the process because of which that may take forever."""
        row = self.rows[1 + rank]
        row[SUSPECT] = suspect
        row[PHASE] = phase
        row[BEAT] = time.monotonic_ns()

    def seconds_in_phase(self, rank: int) -> float:
        return (time.monotonic_ns() - int(self.rows[1 + rank, BEAT])) / 1e9

    def counts(self) -> dict[str, int]:
        """Return the counts of all workers together."""
        sums = self.rows[1:, COUNTS:].sum(axis=0)
        return {name: int(count) for name, count in zip(NAMES, sums, strict=True)}

    def report(self, **event: Any) -> None:
        """Append an event, in one system call, so that a kill does not cut it."""
        os.write(self._events, json.dumps({"pid": os.getpid(), **event}).encode() + b"\n")

    def new_events(self) -> list[dict[str, Any]]:
        """Return the events since the last call."""
        content = os.pread(self._events, 1 << 24, self._read)
        lines = content[: content.rfind(b"\n") + 1]
        self._read += len(lines)
        return [json.loads(line) for line in lines.splitlines()]

    def close(self) -> None:
        os.close(self._events)
