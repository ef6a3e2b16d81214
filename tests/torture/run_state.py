"""State that director and actors share besides tensors: orders, reports, mailboxes, a folder."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from tests.helpers.cgroups import MemoryCgroup
from tests.helpers.datagrams import Mailbox
from tests.torture.ledger import LedgerWriter

RUN, PAUSE, DRAIN, COLLECT, END = range(5)  # orders

# One row per process: its pid and counters.
PID, OPERATIONS, RECEIVED, FORKS, LOST, ENDING, REFUSED, SWITCHES, PAGES, OWNERS_DIED = range(10)
COLUMNS = 10
ORDER, DIRECTOR = range(2)  # in row 0
KINDS = 8  # an order and its number are one word, so that a reader sees both or neither

WRONG = 77  # exit status of an actor that found a violation


@dataclass
class RunState:
    """Can be pickled, so that every start method can pass it to an actor."""

    seed: str
    session: str
    folder: Path
    boxes: list[Mailbox]
    ledger: LedgerWriter
    actors: int
    allow_data_loss: bool  # the manager may be killed together with others, which may lose memfds
    has_queues: bool
    cgroup: MemoryCgroup | None = None  # a small one; None without the right to make one

    @property
    def board_path(self) -> Path:
        return self.folder / "board"

    @property
    def mail(self) -> Path:
        """Return the folder of messages that are sent as files."""
        return self.folder / "mail"

    def make(self) -> None:
        self.mail.mkdir(parents=True)
        self.board_path.write_bytes(bytes(8 * COLUMNS * (1 + 2 * self.actors)))

    def board(self) -> np.ndarray:
        """Map the board: row 0 has the order and its number; then actors, then their forked children."""
        return np.memmap(self.board_path, np.int64, "r+", shape=(1 + 2 * self.actors, COLUMNS))

    def report_violation(self, what: str) -> None:
        """Report a violation that this process found; the run has failed."""
        (self.folder / f"fault-{os.getpid()}-{time.monotonic_ns()}.txt").write_text(what)

    def report_exception(self) -> None:
        there = [path for path in ("/dev/null", sys.executable) if Path(path).exists()]
        self.report_violation(f"{traceback.format_exc()}\nthere: {there}, order {self.board()[0].tolist()}")

    def violations(self) -> list[str]:
        return [path.read_text() for path in sorted(self.folder.glob("fault-*.txt"))]

    def traces(self) -> IO[str]:
        """Open the file to which processes write their stacks on SIGUSR2; never closed."""
        return (self.folder / "traces.txt").open("a")

    def report_path(self, pid: int) -> Path:
        """Return the path of the report that a process writes after it followed the current order."""
        return self.folder / f"rest-{pid}-{order_on(self.board())[1]}.json"

    def report(self, holdings: list[tuple[int, int]], exact: bool, forked: bool) -> None:
        """Write the tensors of this process for the observer."""
        path = self.report_path(os.getpid())
        new = path.with_suffix(".new")
        new.write_text(json.dumps({"holdings": holdings, "exact": exact, "forked": forked}))
        new.rename(path)


def give_order(board: np.ndarray, order: int, number: int) -> None:
    board[0][ORDER] = number * KINDS + order


def order_on(board: np.ndarray) -> tuple[int, int]:
    """Return the current order and its number."""
    number, order = divmod(int(board[0][ORDER]), KINDS)
    return order, number
