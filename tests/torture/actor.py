"""One process under torture: it does what its dice say until an order or a signal stops it."""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import sys
import threading
import time

import shmtensor as st
from shmtensor import _core
from tests.torture import stage as stages
from tests.torture.actions import ACTIONS, Hands, take_all
from tests.torture.stage import COLLECT, DRAIN, END, RUN, Stage
from tests.torture.workshop import watch_parent


def play(stage: Stage, rank: int, incarnation: int) -> None:
    """The target of an actor's Process."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR2, stage.traces(), all_threads=True)
    watch_parent()
    Actor(stage, rank, f"{stage.seed}/{rank}/{incarnation}").run()


class Actor:
    def __init__(self, stage: Stage, rank: int, seed: str, hands: Hands | None = None) -> None:
        self.stage, self.rank, self.seed = stage, rank, seed
        self.board = stage.board()
        self.row = self.board[1 + rank]
        self.row[stages.ENDING] = 0
        self.row[stages.PID] = os.getpid()
        self.obeyed = -1
        self.rng = random.Random(seed)
        self.is_forked = hands is not None
        self.hands = hands or Hands(self)
        self.hands.actor = self
        self.life = self.rng.randrange(20, 300) if self.is_forked else 1 << 60
        self.kinds, self.weights = zip(*ACTIONS, strict=True)
        self.helper: Helper | None = None
        if not self.is_forked and self.rng.random() < 0.25:
            self.helper = Helper(self)
            self.helper.start()

    @property
    def exact(self) -> bool:
        """Forked while another thread ran: that thread's frame is here, and nobody ends it."""
        return not self.hands.haunted

    def run(self) -> None:
        """Until the order to end, or by its own decision."""
        try:
            while self.life > 0:
                order, number = stages.order_on(self.board)
                if order == RUN:
                    self.act(self.hands, self.rng)
                elif order == END:
                    break
                elif number != self.obeyed:
                    if not self.obey(order, number):
                        break
                    self.obeyed = number
                else:
                    time.sleep(0.002)
                    os.kill(int(self.board[0][stages.DIRECTOR]), 0)  # an error when there is none
            self.row[stages.ENDING] = 1
        except Exception:
            self.stage.accuse_error()
            os._exit(stages.WRONG)

    def act(self, hands: Hands, rng: random.Random) -> None:
        (action,) = rng.choices(self.kinds, self.weights)
        if action(hands, rng) is hands.LEAVE:
            self.life = 0
        self.life -= 1
        self.row[stages.OPERATIONS] += 1

    def obey(self, order: int, number: int) -> bool:
        """Come to rest; false when this process rather leaves."""
        st.empty(1)  # who has only just come joins now: the observer needs one who has the session's memory
        if self.helper is not None:
            self.helper.wait_until_idle(number)
        if order in (DRAIN, COLLECT):
            if self.is_forked:
                return False
            self.drop_all()
        if order == DRAIN:
            take_all(self.hands)
        if order == COLLECT:
            st.gc(older_than=0)
        _core.follow_managers()  # a manager must live to notice the dead
        held = [(s.data_ptr(), s.nbytes) for s in (letter.tensor.storage() for letter in self.letters())]
        self.stage.report(sorted(set(held)), self.exact, self.is_forked)
        return True

    def letters(self):
        yield from self.hands.held
        if self.helper is not None:
            yield from self.helper.hands.held

    def drop_all(self) -> None:
        self.hands.held.clear()
        if self.helper is not None:
            self.helper.hands.held.clear()

    def fork(self, hands: Hands) -> None:
        """A child that goes on with all that this process holds."""
        row = self.board[1 + self.stage.actors + self.rank]
        if pid := int(row[stages.PID]):
            try:
                os.waitpid(pid, os.WNOHANG)
                os.kill(pid, 0)
                return  # one at a time
            except ChildProcessError:
                pass  # of the one who was this actor before
            except ProcessLookupError:
                pass
        seed = f"{self.seed}/{self.row[stages.FORKS]}"
        self.row[stages.FORKS] += 1
        if os.fork() == 0:
            status = stages.WRONG
            try:
                sys.stdin = None
                hands.haunted = self.helper is not None
                Actor(self.stage, self.stage.actors + self.rank, seed, hands).run()
                _core.follow_managers()  # as every process does that ends in the ordinary way
                status = 0
            finally:
                os._exit(status)


class Helper(threading.Thread):
    """A second thread that does the same at the same time; it neither forks nor leaves."""

    def __init__(self, actor: Actor) -> None:
        super().__init__(daemon=True)
        self.actor, self.hands = actor, Hands(actor, is_helper=True)
        self.rng = random.Random(f"{actor.seed}/helper")
        self.obeyed = -1

    def run(self) -> None:
        try:
            while True:
                order, number = stages.order_on(self.actor.board)
                if order == RUN:
                    self.actor.act(self.hands, self.rng)
                else:
                    self.obeyed = number
                    time.sleep(0.002)
        except Exception:
            self.actor.stage.accuse_error()
            os._exit(stages.WRONG)

    def wait_until_idle(self, number: int) -> None:
        """Whoever has seen this order does nothing until the next."""
        deadline = time.monotonic() + 60
        while self.obeyed != number:
            if time.monotonic() > deadline:
                raise TimeoutError("the second thread does not come to rest")
            time.sleep(0.001)
