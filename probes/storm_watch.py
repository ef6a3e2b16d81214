"""The parent's side of `probes.storm`: it starts, kills, judges and replaces workers."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import shmtensor.multiprocessing as mp
from probes import storm_board as of
from probes.deaths import wait_until
from probes.storm_worker import work

if TYPE_CHECKING:
    from collections.abc import Callable

STALLED = 3.0  # seconds after which a stream that waits for a killed process's event does not go on
HANGING = 15.0  # seconds in one phase
STARTED = 40.0  # seconds for a start; the driver may take several
MOST_FAULTS = 100


class Workers:
    """The processes, and what is known of those that have ended; what is wrong is added to `faults`."""

    def __init__(self, board: of.Board, seed: str, queues: list[Any], faults: list[str]) -> None:
        self.board, self.seed, self.queues, self.faults = board, seed, queues, faults
        self.rng = random.Random(seed)  # noqa: S311
        self.context: Any = mp.get_context("spawn")
        self.running: dict[int, Any] = {}  # by rank
        self.dying: list[tuple[Any, float]] = []
        self.killed: set[int] = set()
        self.faulty: set[int] = set()
        self.starts = self.kills = 0
        self.accepted: Counter[str] = Counter()

    def start(self, rank: int) -> None:
        self.board.rows[1 + rank, : of.COUNTS] = 0
        self.board.enter(rank, of.STARTING)
        count, seed = len(self.board.rows) - 1, f"{self.seed}/{self.starts}"
        arguments = (str(self.board.folder), count, rank, seed, self.queues)
        self.running[rank] = self.context.Process(target=work, args=arguments, daemon=True)
        self.running[rank].start()
        self.starts += 1

    def kill(self, rank: int) -> None:
        process = self.running.pop(rank)
        self.killed.add(process.pid)
        process.kill()
        self.dying.append((process, time.monotonic()))

    def strike(self) -> None:
        """Kill and replace one worker or two, mostly of those that have started; spare what may hang."""
        rows = self.board.rows[1:]
        ready = [
            rank for rank in self.running if rows[rank, of.READY] and self.board.seconds_in_phase(rank) < 1
        ]
        if 2 * len(ready) < len(self.running):
            return
        early = [rank for rank in self.running if not rows[rank, of.READY]]
        victims = ready + early if self.rng.random() < 0.15 else ready
        for rank in self.rng.sample(victims, min(2 if self.rng.random() < 0.1 else 1, len(victims))):
            self.kill(rank)
            self.start(rank)
            self.kills += 1

    def watch(self) -> None:
        """Read what the workers report; replace those that have ended or hang, and reap the killed ones."""
        self.read_events()
        for rank, process in list(self.running.items()):
            if process.exitcode is not None:
                self.ended(rank, process)
            elif (why := self.hangs(rank)) is not None:
                self.kill(rank)
                if why:
                    self.faults.append(f"process {process.pid}: {why}")
            if rank not in self.running and self.board.order != of.END:
                self.start(rank)
        for process, since in list(self.dying):
            if process.exitcode is not None or time.monotonic() > since + HANGING:
                self.dying.remove((process, since))
                if process.exitcode is None:
                    self.faults.append(f"process {process.pid} does not end by SIGKILL")
        if len(self.faults) >= MOST_FAULTS:
            raise RuntimeError("too many faults")

    def read_events(self) -> None:
        for event in self.board.new_events():
            if "fault" in event:
                self.faulty.add(event["pid"])
                self.faults.append(f"process {event['pid']}: {event['fault']}")
            elif event["gone"] in self.killed | self.faulty:
                self.accepted[event["accepted"]] += 1
            else:
                self.faults.append(f"process {event['gone']} was not killed, but: {event['text']}")

    def ended(self, rank: int, process: Any) -> None:
        del self.running[rank]
        if process.exitcode == 0 and self.board.order == of.END:
            return
        if process.pid not in self.faulty:
            self.faults.append(f"process {process.pid} ended with {process.exitcode}")

    def hangs(self, rank: int) -> str | None:
        """Return why a worker must be replaced: a fault, or no text if the guide permits that; else None."""
        phase, suspect = (int(self.board.rows[1 + rank, column]) for column in (of.PHASE, of.SUSPECT))
        seconds = self.board.seconds_in_phase(rank)
        if seconds > STALLED and phase in (of.CHECK, of.SETTLE) and suspect in self.killed:
            self.accepted["a stream waits for a killed process's event"] += 1
            return ""
        if seconds > (STARTED if phase == of.STARTING else HANGING):
            return f"no progress for {seconds:.0f} s in phase {phase}\n{self.stack(self.running[rank].pid)}"
        return None

    def stack(self, pid: int) -> str:
        file = self.board.folder / f"stack-{pid}"
        if not file.exists():
            return "it has not begun"
        os.kill(pid, signal.SIGUSR1)
        wait_until(lambda: file.stat().st_size > 0, 1)
        return file.read_text()

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Wait, within the limit of the program; at that limit, record where the workers are."""
        try:
            while not condition():
                time.sleep(0.01)
                self.watch()
        except TimeoutError:
            stacks = [self.stack(process.pid) for process in self.running.values() if process.is_alive()]
            self.faults.append("\n".join([f"waited for: {what}", *stacks]))
            raise

    def close(self) -> None:
        """Kill and reap all."""
        for rank in list(self.running):
            self.kill(rank)
        for process, _ in self.dying:
            process.join(5)
