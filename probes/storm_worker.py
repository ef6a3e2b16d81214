"""A process of `probes.storm`: it sends, receives, checks and forwards tensors until the order to end."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import logging
import os
import queue
import random
import re
import signal
import time
import traceback
from pathlib import Path
from typing import Any

import shmtensor as st
from probes import storm_board as of
from probes.deaths import Users, wait_until
from probes.storm_letters import Letter, expected, mismatch, new_content, new_tensor

BACKLOG = 8  # unread messages in a queue
MOST = 5  # messages that a process keeps
WEIGHTS = (10, 6, 2, 2, 0.3)  # of actions


class Alarm(logging.Handler):
    """Reports what the library logs as an error: it cannot raise everything."""

    def __init__(self, board: of.Board) -> None:
        super().__init__(logging.ERROR)
        self.board = board

    def emit(self, record: logging.LogRecord) -> None:
        self.board.report(fault=f"logged: {record.getMessage()}")


def work(folder: str, workers: int, rank: int, seed: str, queues: list[Any]) -> None:
    """Run a worker; the target of its Process."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # ends with its parent
    board = of.Board(Path(folder), workers)
    stack = (Path(folder) / f"stack-{os.getpid()}").open("w")
    faulthandler.register(signal.SIGUSR1, stack)
    logging.getLogger("shmtensor").addHandler(Alarm(board))
    try:
        Worker(board, rank, seed, queues).run()
    except Exception:
        board.report(fault=traceback.format_exc())
        os._exit(1)


class Worker:
    """Random actions; each notes before it begins what it is, for the parent that looks for hangs."""

    def __init__(self, board: of.Board, rank: int, seed: str, queues: list[Any]) -> None:
        self.board, self.rank, self.rng, self.queues = board, rank, random.Random(seed), queues  # noqa: S311
        self.row = board.rows[1 + rank]
        self.held: list[Letter] = []

    def run(self) -> None:
        actions = (self.receive, self.send, self.resend, self.recheck, self.collect)
        st.zeros(8, device="cuda")
        self.row[of.READY] = 1
        while (order := self.board.order) != of.END:
            self.row[of.ROUNDS] += 1
            self.enter(of.OTHER)
            if order == of.RUN:
                self.rng.choices(actions, WEIGHTS)[0]()
                del self.held[:-MOST]
            else:
                self.drain()
        self.drain()  # completes what the queue that redelivers would give to another one
        wait_until(lambda: not Users.alive, 5)
        if Users.alive:
            self.board.report(fault=f"{Users.alive} arrays stay exported that no process holds")
        st.cuda.ipc_collect()

    def enter(self, phase: int, suspect: int = 0) -> None:
        self.board.enter(self.rank, phase, suspect)

    def drain(self) -> None:
        """Take what is unread; the queues are empty afterwards if all workers do so."""
        self.held.clear()
        gc.collect()
        while any(list(map(self.take, self.queues))):
            pass
        self.row[of.DRAINED] = 1
        time.sleep(0.01)

    def send(self) -> None:
        made = [new_tensor(self.rng) for _ in range(self.rng.choice((1, 1, 1, 2, 4)))]
        contents = tuple(content for _, content in made)
        alone = self.rng.random() < 0.3
        letter = Letter(0, False, alone, contents, [tensor for tensor, _ in made])
        del made
        if self.put(letter) and not alone:
            self.held.append(letter)

    def resend(self) -> None:
        if self.held:
            self.put(self.rng.choice(self.held))

    def recheck(self) -> None:
        """Check what was checked before; its owner or maker may have been killed since."""
        if self.held:
            self.check(self.held.pop(self.rng.randrange(len(self.held))))

    def collect(self) -> None:
        self.rng.choice((st.gc, st.cuda.ipc_collect))()

    def put(self, letter: Letter) -> bool:
        """Send a message, of one tensor sometimes by event; return False if there is no room.

        A message that is alone cannot be redelivered, since its receiver writes. One by event has one tensor:
        if the event never completes, its receiver hangs in `check`, not when it releases another tensor.
        """
        by_event = len(letter.tensors) == 1 and self.rng.random() < 0.3
        target = self.rng.choice(self.queues[:-1] if letter.alone else self.queues)
        st.cuda.set_sync("event" if by_event else "host")
        try:
            if target.qsize() >= BACKLOG:
                raise queue.Full
            target.put(letter._replace(sender=os.getpid(), by_event=by_event), timeout=0.01)
        except queue.Full:
            self.row[of.FULL] += 1
            return False
        self.row[of.SENT] += 1
        return True

    def receive(self) -> None:
        letter = self.take(self.rng.choice(self.queues))
        if letter is None:
            return
        if not letter.alone:
            if self.rng.random() < 0.4 and self.put(letter):
                self.row[of.FORWARDED] += 1
            self.held.append(letter)
        elif self.rng.random() < 0.5:
            contents = tuple(new_content(self.rng) for _ in letter.contents)
            for tensor, content in zip(letter.tensors, contents, strict=True):
                tensor.copy_(expected(content, tensor.size))
            self.row[of.OVERWRITTEN] += 1
            self.put(letter._replace(contents=contents))

    def take(self, source: Any) -> Letter | None:
        """Return a message that is right; None if there is none, or if a producer is gone."""
        self.enter(of.GET)
        try:
            letter: Letter = source.get(timeout=0.005)
        except queue.Empty:
            return None
        except st.ProducerGone as error:
            found = re.search(r"process (\d+)", str(error))
            gone = int(found[1]) if found else 0
            kind = "of an event" if "event" in str(error) else "of memory"
            self.board.report(accepted=f"ProducerGone {kind}", gone=gone, text=str(error))
            self.enter(of.SETTLE, gone)
            st.cuda.synchronize()  # a tensor that was not made may have come after the event
            return None
        self.row[of.RECEIVED] += 1
        self.check(letter)
        return letter

    def check(self, letter: Letter) -> None:
        """Compare all bytes. If the sender was killed before its event completed, this may hang."""
        for which, tensor in enumerate(letter.tensors):
            self.enter(of.CHECK, letter.sender if letter.by_event else 0)
            if wrong := mismatch(letter, which):
                self.board.report(fault=wrong)
            self.row[of.CHECKS] += 1
            self.row[of.BYTES] += tensor.size
        self.enter(of.OTHER)
