"""What director and actors share besides tensors: orders, answers, mailboxes, a folder."""

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

from tests.helpers.datagrams import Mailbox

RUN, PAUSE, DRAIN, COLLECT, END = range(5)  # orders

# A row for each process: its pid and what it has done.
PID, OPERATIONS, RECEIVED, FORKS, LOST, ENDING = range(6)
ORDER, DIRECTOR = range(2)  # in row 0
KINDS = 8  # an order and its number are one word: nobody sees the one without the other

WRONG = 77  # exit status of an actor that found a fault


@dataclass
class RunState:
    """Survives pickling, so that every start method can carry it."""

    seed: str
    session: str
    folder: Path
    boxes: list[Mailbox]
    actors: int
    allow_data_loss: bool  # the manager may be killed together with others: then memfds may be lost

    @property
    def board_path(self) -> Path:
        return self.folder / "board"

    @property
    def mail(self) -> Path:
        """Where messages lie that travel as files."""
        return self.folder / "mail"

    def make(self) -> None:
        self.mail.mkdir(parents=True)
        self.board_path.write_bytes(bytes(64 * (1 + 2 * self.actors)))

    def board(self) -> np.ndarray:
        """Row 0 has the order and its number; then come the actors, then their forked children."""
        return np.memmap(self.board_path, np.int64, "r+", shape=(1 + 2 * self.actors, 8))

    def report_violation(self, what: str) -> None:
        """A process found a fault: it says so, and the run has failed."""
        (self.folder / f"fault-{os.getpid()}-{time.monotonic_ns()}.txt").write_text(what)

    def report_exception(self) -> None:
        there = [path for path in ("/dev/null", sys.executable) if Path(path).exists()]
        self.report_violation(f"{traceback.format_exc()}\nthere: {there}, order {self.board()[0].tolist()}")

    def violations(self) -> list[str]:
        return [path.read_text() for path in sorted(self.folder.glob("fault-*.txt"))]

    def traces(self) -> IO[str]:
        """Where a process that hangs says on SIGUSR2 what it is doing; never closed."""
        return (self.folder / "traces.txt").open("a")

    def report_path(self, pid: int) -> Path:
        """Where a process that has obeyed the present order says so."""
        return self.folder / f"rest-{pid}-{order_on(self.board())[1]}.json"

    def report(self, holdings: list[tuple[int, int]], exact: bool, forked: bool) -> None:
        """What this process has, for the observer."""
        path = self.report_path(os.getpid())
        new = path.with_suffix(".new")
        new.write_text(json.dumps({"holdings": holdings, "exact": exact, "forked": forked}))
        new.rename(path)


def give_order(board: np.ndarray, order: int, number: int) -> None:
    board[0][ORDER] = number * KINDS + order


def order_on(board: np.ndarray) -> tuple[int, int]:
    """The present order and its number."""
    number, order = divmod(int(board[0][ORDER]), KINDS)
    return order, number
