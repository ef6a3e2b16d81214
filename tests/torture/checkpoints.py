"""Checkpoints: the director stops all processes and runs the observer."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from tests.helpers.children import descendants
from tests.observer import processes
from tests.observer.leftovers import ProcessResources, session_leftovers
from tests.observer.snapshot import Snapshot, take_snapshot
from tests.torture import run_state as states

if TYPE_CHECKING:
    from tests.torture.faults import FaultInjector
    from tests.torture.ledger import Ledger

TIMEOUT = 60.0  # for all processes to become idle: spawn takes seconds on a busy machine
SETTLE = 10.0  # for the manager to notice dead processes
LATER = 30.0  # until a fault is observed again, which separates what lasts from what was slow


class Violation(Exception):
    """The library violated one of its guarantees."""


class Checkpoints:
    """The part of a director that waits for idle processes and runs the observer."""

    run_state: states.RunState
    board: np.ndarray | None
    counts: Counter[str]
    actors: dict
    injector: FaultInjector
    ledger: Ledger

    def family(self) -> list[int]:
        """Return all live processes of this round except the manager."""
        family, new = set(), {process.pid for process in self.actors.values()}
        new |= processes.children(os.getpid()) - self.injector.helpers
        while new:
            family |= new
            new = {child for pid in new for child in processes.children(pid)} - family
        family -= set(processes.managers(self.state.session))
        return sorted(pid for pid in family if processes.is_alive(pid))

    def checkpoint(self, order: int, rule) -> None:
        """Make all processes idle and check the rule until it holds; raise after a timeout."""
        self.order(order)
        self.wait_for_rest()
        deadline = time.monotonic() + SETTLE
        while True:
            self.check_violations()
            snapshot = self.observe()
            problems = rule(snapshot) or self.managers_ended(snapshot)
            if not problems:
                break
            if time.monotonic() > deadline:
                time.sleep(LATER)
                later = rule(self.observe()) or ["nothing"]
                raise Violation(
                    f"after order {order} the observer reports:\n"
                    + "\n".join([*problems, f"{LATER:.0f} s later it reports:", *later])
                )
            time.sleep(0.02)
            self.reap()
        self.counts["checkpoints"] += 1
        self.counts["blocks seen"] += sum(len(arena.blocks) for arena in snapshot.arenas.values())
        self.counts["tickets seen"] += sum(group.tickets for group in snapshot.session.groups)

    def observe(self) -> Snapshot:
        snapshot = take_snapshot(self.state.session, self.family(), self.state.report_path)
        snapshot.allow_data_loss = self.state.allow_data_loss
        snapshot.may_keep_tickets = self.state.allow_data_loss  # of queues, and of pipes, which are queues
        return snapshot

    def managers_ended(self, snapshot: Snapshot) -> list[str]:
        """Return a problem if a manager ended that was not killed here, or with a PID namespace."""
        ended, killed = snapshot.session.manager_starts - 1, self.counts["managers killed"]
        if ended <= killed or self.state.allow_data_loss:
            return []
        return [f"{ended} managers ended, of which {killed} were killed"]

    def wait_for_rest(self) -> None:
        deadline = time.monotonic() + TIMEOUT
        while busy := self.busy():
            if time.monotonic() > deadline:
                raise Violation(f"some processes did not become idle:\n{self.describe(sorted(busy))}")
            time.sleep(0.002)
            self.check_violations()
            self.reap()

    def describe(self, pids: list[int]) -> str:
        """Return the stacks and states of processes that hang, and of their children."""
        pids = [*pids, *sorted(set().union(*map(descendants, pids))), *processes.managers(self.state.session)]
        for pid in pids:
            if processes.catches(pid, signal.SIGUSR2):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGUSR2)
        time.sleep(0.5)
        texts = [f"{pid}: {processes.describe(pid)}" for pid in pids]
        with suppress(FileNotFoundError):
            texts.append((self.state.folder / "traces.txt").read_text())
        return "\n".join(texts)

    def busy(self) -> set[int]:
        """Return actors and other processes in the session's slots that have not followed the order yet."""
        pids = self.injector.in_slots() | {process.pid for process in self.actors.values()}
        return {pid for pid in pids if not self.state.report_path(pid).exists()}

    def check_boxes(self) -> None:
        """Check that no unread message is left; remove files of dead processes."""
        for box in self.state.boxes:
            try:
                box.reader.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                continue
            raise Violation("a mailbox is not empty after all actors have read all messages")
        for path in self.state.mail.iterdir():
            if path.name.startswith("letter-"):
                raise Violation(f"{path.name} was not read")
            path.unlink()

    def check_queues(self) -> None:
        """Check that every message of the queues was received once, after all processes drained them."""
        if problems := self.ledger.judge(self.state.allow_data_loss):
            raise Violation("\n".join(problems))

    def wait_for_deaths(self) -> None:
        """Wait for all processes of the session, which were killed: a busy machine ends them later."""
        deadline = time.monotonic() + TIMEOUT
        while left := [*self.family(), *processes.managers(self.state.session)]:
            if time.monotonic() > deadline:
                raise Violation(f"killed processes do not end: {left}")
            time.sleep(0.01)

    def check_start(self, before: ProcessResources) -> None:
        """Check that nothing is left of the session, and that this process has no additional resources."""
        deadline = time.monotonic() + 15
        while True:
            self.reap()
            problems = [
                *session_leftovers(self.state.session),
                *ProcessResources.take().more_than(before),
            ]
            if not problems:
                return
            if time.monotonic() > deadline:
                raise Violation("resources are left:\n" + "\n".join(problems))
            time.sleep(0.05)
