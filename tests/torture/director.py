"""One round: its session, its actors, the injected faults and the checkpoints."""

from __future__ import annotations

import os
import random
import time
from collections import Counter

import shmtensor.multiprocessing as mp
from tests.observer import processes
from tests.observer.rules import judge, judge_empty
from tests.torture import run_state as states
from tests.torture.actor import play
from tests.torture.checkpoints import TIMEOUT, Checkpoints, Violation
from tests.torture.faults import FaultInjector
from tests.torture.ledger import Ledger
from tests.torture.run_state import COLLECT, DRAIN, END, PAUSE, RUN, RunState

METHODS = ("fork", "forkserver", "spawn")
METHOD_WEIGHTS = (92, 6, 2)


class Director(Checkpoints):
    def __init__(self, run_state: RunState, ledger: Ledger) -> None:
        self.state, self.ledger = run_state, ledger
        self.rng = random.Random(run_state.seed)
        run_state.make()
        self.board = run_state.board()
        self.board[0][states.DIRECTOR] = os.getpid()
        self.number = 0
        self.order(RUN)
        self.actors: dict[int, mp.Process] = {}
        self.incarnations = [0] * run_state.actors
        self.counts: Counter[str] = Counter()
        self.injector = FaultInjector(self)

    def order(self, what: int) -> None:
        for report in self.state.folder.glob("rest-*"):
            report.unlink()
        self.number += 1
        states.give_order(self.board, what, self.number)

    def start(self, rank: int) -> None:
        method = self.rng.choices(METHODS, METHOD_WEIGHTS)[0]
        arguments = (self.state, rank, self.incarnations[rank])
        process = mp.get_context(method).Process(target=play, args=arguments)
        process.start()
        self.actors[rank] = process
        self.incarnations[rank] += 1
        self.counts[f"started by {method}"] += 1

    def replace(self, rank: int) -> None:
        """Reap an actor that exited and start the next one."""
        process = self.actors.pop(rank)
        self.wait_for(process)
        self.counts[f"ended with {process.exitcode}"] += 1
        wrong = process.exitcode not in (0, -9)
        process.close()
        if wrong:
            self.check_violations()
            raise Violation(f"actor {rank} exited with a failure")
        self.start(rank)

    def wait_for(self, process: mp.Process) -> None:
        """`join` with a time limit waits for the process's forked children too, which have its sentinel."""
        deadline = time.monotonic() + TIMEOUT
        while process.exitcode is None:
            if time.monotonic() > deadline:
                raise Violation(f"process {process.pid} does not exit:\n{self.describe([process.pid])}")
            time.sleep(0.0005)
            self.ledger.read()

    def play(self, seconds: float, drains: bool) -> None:
        """Run a phase of random actions and faults, then a checkpoint."""
        self.order(RUN)
        for rank in range(self.state.actors):
            if rank not in self.actors:
                self.start(rank)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            time.sleep(min(self.rng.expovariate(self.injector.rate), 0.2))
            self.injector.inject()
            self.reap()
            self.check_violations()
        self.injector.restore()
        self.checkpoint(PAUSE, judge)
        if drains:
            self.checkpoint(DRAIN, judge)
            self.check_queues()
            self.check_boxes()
            self.checkpoint(COLLECT, judge)
            self.checkpoint(COLLECT, judge_empty)  # again: orphan arenas end when no process maps them

    def reap(self) -> None:
        """Reap actors that exited by themselves, and orphaned processes."""
        for rank, process in list(self.actors.items()):
            if process.exitcode is not None:
                self.replace(rank)
        mine = {process.pid for process in self.actors.values()}
        for pid in processes.children(os.getpid()) - mine:
            if not processes.is_alive(pid) and pid not in self.injector.helpers:
                try:
                    os.waitpid(pid, os.WNOHANG)
                except ChildProcessError:
                    continue

    def check_violations(self) -> None:
        if violations := self.state.violations():
            raise Violation("an actor reports:\n" + "\n".join(violations))
        self.ledger.read()
        if self.ledger.problems:
            raise Violation("\n".join(self.ledger.problems))

    def end(self, abrupt: bool) -> None:
        """End all actors by order, or kill them and the manager simultaneously."""
        if abrupt:
            self.injector.kill_all(self.family())
        else:
            self.order(END)
        for process in self.actors.values():
            self.wait_for(process)
            process.close()
        self.actors.clear()
        self.check_violations()
