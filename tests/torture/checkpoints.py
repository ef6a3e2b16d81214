"""When and how the director lets the observer look."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from tests.torture import run_state as states
from tests.torture.observer import processes
from tests.torture.observer.leftovers import ProcessResources, session_leftovers
from tests.torture.observer.snapshot import take_snapshot

if TYPE_CHECKING:
    from tests.torture.faults import FaultInjector

TIMEOUT = 60.0  # for everybody to come to rest: a workshop with spawn takes seconds on a busy machine
SETTLE = 10.0  # for the manager to notice the dead


class Violation(Exception):
    """The library did something that it must not do."""


class Checkpoints:
    """The part of a director that waits for rest and asks the observer."""

    run_state: states.RunState
    board: np.ndarray | None
    counts: Counter[str]
    actors: dict
    injector: FaultInjector

    def family(self) -> list[int]:
        """All processes of this round that are alive, but for the manager."""
        family, new = set(), {process.pid for process in self.actors.values()}
        new |= processes.children(os.getpid()) - self.injector.helpers
        while new:
            family |= new
            new = {child for pid in new for child in processes.children(pid)} - family
        family -= set(processes.managers(self.state.session))
        return sorted(pid for pid in family if processes.is_alive(pid))

    def checkpoint(self, order: int, rule) -> None:
        """Bring everybody to rest and let the observer judge, until it is content or time is over."""
        self.order(order)
        self.wait_for_rest()
        deadline = time.monotonic() + SETTLE
        while True:
            self.check_violations()
            snapshot = take_snapshot(self.state.session, self.family(), self.state.report_path)
            snapshot.allow_data_loss = self.state.allow_data_loss
            problems = rule(snapshot)
            if not problems:
                break
            if time.monotonic() > deadline:
                raise Violation(f"after order {order} the observer sees:\n" + "\n".join(problems))
            time.sleep(0.02)
            self.reap()
        self.counts["checkpoints"] += 1
        self.counts["blocks seen"] += sum(len(arena.blocks) for arena in snapshot.arenas.values())
        self.counts["tickets seen"] += sum(group.tickets for group in snapshot.session.groups)

    def wait_for_rest(self) -> None:
        deadline = time.monotonic() + TIMEOUT
        while busy := self.busy():
            if time.monotonic() > deadline:
                raise Violation(f"some do not come to rest:\n{self.describe(sorted(busy))}")
            time.sleep(0.002)
            self.check_violations()
            self.reap()

    def describe(self, pids: list[int]) -> str:
        """What processes that hang are doing."""
        pids = [*pids, *processes.managers(self.state.session)]
        for pid in pids:
            if self.board is not None and pid in self.board[1:, states.PID]:
                os.kill(pid, signal.SIGUSR2)
        time.sleep(0.5)
        texts = [f"{pid}: {processes.describe(pid)}" for pid in pids]
        with suppress(FileNotFoundError):
            texts.append((self.state.folder / "traces.txt").read_text())
        return "\n".join(texts)

    def busy(self) -> set[int]:
        """Actors, and whoever else is in the session's slots, that have not obeyed yet."""
        pids = self.injector.in_slots() | {process.pid for process in self.actors.values()}
        return {pid for pid in pids if not self.state.report_path(pid).exists()}

    def check_boxes(self) -> None:
        """Everything was read: no message, and of files only what the dead left."""
        for box in self.state.boxes:
            try:
                box.reader.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                continue
            raise Violation("a mailbox is not empty after everybody has read everything")
        for path in self.state.mail.iterdir():
            if path.name.startswith("letter-"):
                raise Violation(f"{path.name} was not read")
            path.unlink()

    def check_start(self, before: ProcessResources, timeout: float = 15.0) -> None:
        """Nothing of the session is left, and this process is as it was."""
        deadline = time.monotonic() + timeout
        while True:
            self.reap()
            problems = [
                *session_leftovers(self.state.session),
                *ProcessResources.take().more_than(before),
            ]
            if not problems:
                return
            if time.monotonic() > deadline:
                raise Violation("not back to the start:\n" + "\n".join(problems))
            time.sleep(0.05)
