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

from tests.torture import stage as stages
from tests.torture.observer import processes
from tests.torture.observer.picture import take_picture
from tests.torture.observer.start import Own, left_behind

if TYPE_CHECKING:
    from tests.torture.blows import Blows

PATIENCE = 60.0  # for everybody to come to rest: a workshop with spawn takes seconds on a busy machine
SETTLE = 10.0  # for the manager to notice the dead


class Fault(Exception):
    """The library did something that it must not do."""


class Looks:
    """The part of a director that waits for rest and asks the observer."""

    stage: stages.Stage
    board: np.ndarray | None
    counts: Counter[str]
    actors: dict
    blows: Blows

    def family(self) -> list[int]:
        """All processes of this round that are alive, but for the manager."""
        family, new = set(), {process.pid for process in self.actors.values()}
        new |= processes.children(os.getpid()) - self.blows.helpers
        while new:
            family |= new
            new = {child for pid in new for child in processes.children(pid)} - family
        family -= set(processes.managers(self.stage.session))
        return sorted(pid for pid in family if processes.is_alive(pid))

    def look(self, order: int, rule) -> None:
        """Bring everybody to rest and let the observer judge, until it is content or time is over."""
        self.order(order)
        self.wait_for_rest()
        deadline = time.monotonic() + SETTLE
        while True:
            self.listen()
            picture = take_picture(self.stage.session, self.family(), self.stage.report_path)
            picture.harsh = self.stage.harsh
            problems = rule(picture)
            if not problems:
                break
            if time.monotonic() > deadline:
                raise Fault(f"after order {order} the observer sees:\n" + "\n".join(problems))
            time.sleep(0.02)
            self.bury()
        self.counts["looks"] += 1
        self.counts["blocks seen"] += sum(len(arena.blocks) for arena in picture.arenas.values())
        self.counts["tickets seen"] += sum(group.tickets for group in picture.session.groups)

    def wait_for_rest(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while busy := self.busy():
            if time.monotonic() > deadline:
                raise Fault(f"some do not come to rest:\n{self.describe(sorted(busy))}")
            time.sleep(0.002)
            self.listen()
            self.bury()

    def describe(self, pids: list[int]) -> str:
        """What processes that hang are doing."""
        pids = [*pids, *processes.managers(self.stage.session)]
        for pid in pids:
            if self.board is not None and pid in self.board[1:, stages.PID]:
                os.kill(pid, signal.SIGUSR2)
        time.sleep(0.5)
        texts = [f"{pid}: {processes.describe(pid)}" for pid in pids]
        with suppress(FileNotFoundError):
            texts.append((self.stage.folder / "traces.txt").read_text())
        return "\n".join(texts)

    def busy(self) -> set[int]:
        """Actors, and whoever else is in the session's slots, that have not obeyed yet."""
        pids = self.blows.in_slots() | {process.pid for process in self.actors.values()}
        return {pid for pid in pids if not self.stage.report_path(pid).exists()}

    def check_boxes(self) -> None:
        """Everything was read: no message, and of files only what the dead left."""
        for box in self.stage.boxes:
            try:
                box.reader.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                continue
            raise Fault("a mailbox is not empty after everybody has read everything")
        for path in self.stage.mail.iterdir():
            if path.name.startswith("letter-"):
                raise Fault(f"{path.name} was not read")
            path.unlink()

    def check_start(self, before: Own, patience: float = 15.0) -> None:
        """Nothing of the session is left, and this process is as it was."""
        deadline = time.monotonic() + patience
        while True:
            self.bury()
            problems = [*left_behind(self.stage.session), *Own.take().more_than(before)]
            if not problems:
                return
            if time.monotonic() > deadline:
                raise Fault("not back to the start:\n" + "\n".join(problems))
            time.sleep(0.05)
