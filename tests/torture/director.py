"""One round: a session of its own, its actors, who is struck when, and the looks of the observer."""

from __future__ import annotations

import os
import random
import time
from collections import Counter

import shmtensor.multiprocessing as mp
from tests.torture import stage as stages
from tests.torture.actor import play
from tests.torture.blows import Blows
from tests.torture.looks import PATIENCE, Fault, Looks
from tests.torture.observer import processes
from tests.torture.observer.judge import judge, judge_empty
from tests.torture.stage import COLLECT, DRAIN, END, PAUSE, RUN, Stage

METHODS = ("fork", "forkserver", "spawn")
METHOD_WEIGHTS = (92, 6, 2)


class Director(Looks):
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
        for report in self.stage.folder.glob("rest-*"):
            report.unlink()
        self.number += 1
        stages.give_order(self.board, what, self.number)

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
        self.wait_for(process)
        self.counts[f"ended with {process.exitcode}"] += 1
        wrong = process.exitcode not in (0, -9)
        process.close()
        if wrong:
            self.listen()
            raise Fault(f"actor {rank} ended with a fault")
        self.start(rank)

    def wait_for(self, process: mp.Process) -> None:
        """`join` with a time limit waits for the process's forked children too, which have its sentinel."""
        deadline = time.monotonic() + PATIENCE
        while process.exitcode is None:
            if time.monotonic() > deadline:
                raise Fault(f"process {process.pid} does not end:\n{self.describe([process.pid])}")
            time.sleep(0.0005)

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

    def end(self, abrupt: bool) -> None:
        """By order, or all killed at one time, the manager too."""
        if abrupt:
            self.blows.kill_all(self.family())
        else:
            self.order(END)
        for process in self.actors.values():
            self.wait_for(process)
            process.close()
        self.actors.clear()
        self.listen()
