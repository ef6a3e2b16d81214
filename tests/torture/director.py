"""One round: a session of its own, its actors, who is struck when, and the looks of the observer."""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import shmtensor.multiprocessing as mp
from tests.torture import stage as stages
from tests.torture.actor import play
from tests.torture.blows import Blows
from tests.torture.observer import processes
from tests.torture.observer.judge import judge, judge_empty
from tests.torture.observer.picture import take_picture
from tests.torture.observer.start import Own, left_behind
from tests.torture.stage import COLLECT, DRAIN, END, PAUSE, RUN, Stage

METHODS = ("fork", "forkserver", "spawn")
METHOD_WEIGHTS = (92, 6, 2)
PATIENCE = 60.0  # for everybody to come to rest: a workshop with spawn takes seconds on a busy machine
SETTLE = 10.0  # for the manager to notice the dead


class Fault(Exception):
    """The library did something that it must not do."""


class Director:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.rng = random.Random(stage.seed)
        stage.make()
        self.board = stage.board()
        self.board[0][stages.DIRECTOR] = os.getpid()
        self.number = 0
        self.order(RUN)
        self.actors: dict[int, mp.Process] = {}
        self.incarnations = [0] * stage.actors
        self.counts: Counter[str] = Counter()
        self.blows = Blows(self)

    def order(self, what: int) -> None:
        self.number += 1
        self.board[0][stages.ORDER] = what if what == RUN else PAUSE
        self.board[0][stages.NUMBER] = self.number
        self.board[0][stages.ORDER] = what

    def start(self, rank: int) -> None:
        method = self.rng.choices(METHODS, METHOD_WEIGHTS)[0]
        arguments = (self.stage, rank, self.incarnations[rank])
        process = mp.get_context(method).Process(target=play, args=arguments)
        process.start()
        self.actors[rank] = process
        self.incarnations[rank] += 1
        self.counts[f"started by {method}"] += 1

    def replace(self, rank: int) -> None:
        """Bury an actor that ended and start the next."""
        process = self.actors.pop(rank)
        process.join(PATIENCE)
        if process.exitcode is None:
            raise Fault(f"actor {rank} does not end (process {process.pid})")
        self.counts[f"ended with {process.exitcode}"] += 1
        wrong = process.exitcode not in (0, -9)
        process.close()
        if wrong:
            raise Fault(f"actor {rank} ended with a fault")
        self.start(rank)

    def play(self, seconds: float, drains: bool) -> None:
        """A storm, then rest, then the observer's look."""
        self.order(RUN)
        for rank in range(self.stage.actors):
            if rank not in self.actors:
                self.start(rank)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            time.sleep(min(self.rng.expovariate(self.blows.rate), 0.2))
            self.blows.strike()
            self.bury()
            self.listen()
        self.blows.relent()
        self.look(PAUSE, judge)
        if drains:
            self.look(DRAIN, judge)
            self.check_boxes()
            self.look(COLLECT, judge)
            self.look(COLLECT, judge_empty)  # a second time: orphans end once nobody has them mapped

    def bury(self) -> None:
        """Those who ended by themselves, and orphans that came to us."""
        for rank, process in list(self.actors.items()):
            if process.exitcode is not None:
                self.replace(rank)
        mine = {process.pid for process in self.actors.values()}
        for pid in processes.children(os.getpid()) - mine:
            if not processes.is_alive(pid) and pid not in self.blows.helpers:
                try:
                    os.waitpid(pid, os.WNOHANG)
                except ChildProcessError:
                    continue

    def listen(self) -> None:
        if accusations := self.stage.accusations():
            raise Fault("an actor says:\n" + "\n".join(accusations))

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
            picture = take_picture(self.stage.session, self.family(), self.stage.folder)
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
            if any(pid == int(row[stages.PID]) for row in self.board[1:]):
                os.kill(pid, signal.SIGUSR2)
        time.sleep(0.5)
        texts = [f"{pid}: {processes.describe(pid)}" for pid in pids]
        with suppress(FileNotFoundError):
            texts.append((self.stage.folder / "traces.txt").read_text())
        return "\n".join(texts)

    def busy(self) -> set[int]:
        """Actors, and whoever else is in the session's slots, that have not obeyed yet."""
        obeyed = {int(row[stages.PID]) for row in self.board[1:] if row[stages.OBEYED] == self.number}
        return (self.blows.in_slots() | {p.pid for p in self.actors.values()}) - obeyed

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

    def end(self, abrupt: bool) -> None:
        """By order, or all killed at one time, the manager too."""
        if abrupt:
            self.blows.kill_all(self.family())
        else:
            self.order(END)
        for process in self.actors.values():
            process.join(PATIENCE)
            if process.exitcode is None:
                raise Fault(f"process {process.pid} does not end")
            process.close()
        self.actors.clear()
        self.listen()

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


def new_folder(parent: Path, name: str) -> Path:
    folder = parent / name
    folder.mkdir(parents=True)
    return folder
