"""One process under torture: it runs random actions until an order or a signal stops it."""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator

import shmtensor as st
from shmtensor import _core
from shmtensor.storage import Storage
from tests.torture import broadcasts, caches, latest, locks, queues
from tests.torture import run_state as states
from tests.torture.actions import ACTIONS, ActorState, receive_all, release_shared
from tests.torture.mp_workload import watch_parent
from tests.torture.run_state import COLLECT, DRAIN, END, RUN, RunState
from tests.torture.shared import meet

# Not when it is first used: the error of a signal handler can leave the lock of Python's imports locked.
for _name in st.__all__:
    getattr(st, _name)


def play(run_state: RunState, rank: int, incarnation: int) -> None:
    """Run an actor; the target of its Process."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR2, run_state.traces(), all_threads=True)
    watch_parent()
    Actor(run_state, rank, f"{run_state.seed}/{rank}/{incarnation}").run()


class Actor:
    def __init__(
        self, run_state: RunState, rank: int, seed: str, actor_state: ActorState | None = None
    ) -> None:
        self.state, self.rank, self.seed = run_state, rank, seed
        self.board = run_state.board()
        self.row = self.board[1 + rank]
        self.row[states.ENDING] = 0
        self.row[states.PID] = os.getpid()
        self.obeyed = -1
        self.rng = random.Random(seed)
        self.is_forked = actor_state is not None
        self.actor_state = actor_state or ActorState(self)
        self.actor_state.actor = self
        self.life = self.rng.randrange(20, 300) if self.is_forked else 1 << 60
        self.kinds, self.weights = zip(*ACTIONS, strict=True)
        self.helper: Helper | None = None
        if not self.is_forked and self.rng.random() < 0.25:
            self.helper = Helper(self)
            self.helper.start()

    @property
    def exact(self) -> bool:
        """Return False after a fork beside another thread: its copied frame keeps tensors."""
        return not self.actor_state.has_orphan_thread

    def run(self) -> None:
        """Run until the order to end, or until the actor leaves."""
        try:
            while self.life > 0:
                order, number = states.order_on(self.board)
                if order == RUN:
                    self.act(self.actor_state, self.rng)
                elif order == END:
                    break
                elif number != self.obeyed:
                    if not self.obey(order, number):
                        break
                    self.obeyed = number
                else:
                    time.sleep(0.002)
                    if self.state.allow_data_loss:
                        _core.ensure_managers()  # one in a PID namespace may wait for arenas of this process
                    os.kill(int(self.board[0][states.DIRECTOR]), 0)  # raises if the director is gone
            self.row[states.ENDING] = 1
        except Exception:
            self.state.report_exception()
            os._exit(states.WRONG)

    def act(self, actor_state: ActorState, rng: random.Random) -> None:
        (action,) = rng.choices(self.kinds, self.weights)
        if action(actor_state, rng) is actor_state.LEAVE:
            self.life = 0
        del actor_state.queues[: -queues.MOST]
        del actor_state.broadcasts[: -broadcasts.MOST]
        del actor_state.readers[: -broadcasts.MOST]
        del actor_state.locks[: -locks.MOST]
        del actor_state.latest[: -latest.MOST]
        del actor_state.caches[: -caches.MOST]
        self.life -= 1
        self.row[states.OPERATIONS] += 1

    def obey(self, order: int, number: int) -> bool:
        """Become idle and report; return False if this process leaves instead."""
        st.empty(1)  # joins the session: the observer needs a process that maps its memory
        if self.helper is not None:
            self.helper.wait_until_idle(number)
        if order in (DRAIN, COLLECT):
            if self.is_forked:
                release_shared(self.actor_state)
                queues.drain_queues(self.actor_state)
                return False
            self.release_all()
        if order == DRAIN:
            receive_all(self.actor_state)
        if order == COLLECT:
            st.gc(older_than=0)
        _core.ensure_managers()  # a running manager must notice dead processes
        st.stats()  # a request, with which it frees what processes short of address space have left
        held = {(storage.data_ptr(), storage.nbytes) for storage in self.storages()}
        self.state.report(sorted(held), self.exact, self.is_forked)
        return True

    def actor_states(self) -> Iterator[ActorState]:
        yield self.actor_state
        if self.helper is not None:
            yield self.helper.actor_state

    def storages(self) -> Iterator[Storage]:
        for actor_state in self.actor_states():
            yield from (letter.tensor.storage() for letter in actor_state.held)
            yield from (shared.queue._storage for shared in actor_state.queues)
            yield from (shared.broadcast._storage for shared in actor_state.broadcasts)
            yield from (reader.shared.broadcast._storage for reader in actor_state.readers)
            for shared in (*actor_state.locks, *actor_state.latest, *actor_state.caches):
                yield from shared.storages()
            yield from caches.storages_of(actor_state.items)

    def release_all(self) -> None:
        """Release all; leave the queues of the second thread to this one."""
        for actor_state in self.actor_states():
            release_shared(actor_state)
            actor_state.held.clear()
        if self.helper is not None:
            for shared in self.helper.actor_state.queues:
                meet(self.actor_state.queues, shared)
            self.helper.actor_state.queues.clear()

    def fork(self, actor_state: ActorState) -> None:
        """Fork a child that continues with all tensors of this process."""
        row = self.board[1 + self.state.actors + self.rank]
        if pid := int(row[states.PID]):
            try:
                os.waitpid(pid, os.WNOHANG)
                os.kill(pid, 0)
                return  # at most one forked child
            except ChildProcessError:
                pass  # a child of the previous actor of this rank
            except ProcessLookupError:
                pass
        seed = f"{self.seed}/{self.row[states.FORKS]}"
        self.row[states.FORKS] += 1
        if os.fork() == 0:
            status = states.WRONG
            try:
                sys.stdin = None
                actor_state.has_orphan_thread = self.helper is not None
                actor_state.readers.clear()  # a reader is of one process
                Actor(self.state, self.state.actors + self.rank, seed, actor_state).run()
                _core.ensure_managers()  # as every process does at a normal exit
                status = 0
            finally:
                os._exit(status)


class Helper(threading.Thread):
    """A second thread that runs actions concurrently; it neither forks nor leaves."""

    def __init__(self, actor: Actor) -> None:
        super().__init__(daemon=True)
        self.actor, self.actor_state = actor, ActorState(actor, is_helper=True)
        self.rng = random.Random(f"{actor.seed}/helper")
        self.obeyed = -1

    def run(self) -> None:
        try:
            while True:
                order, number = states.order_on(self.actor.board)
                if order == RUN:
                    self.actor.act(self.actor_state, self.rng)
                else:
                    self.obeyed = number
                    time.sleep(0.002)
        except Exception:
            self.actor.state.report_exception()
            os._exit(states.WRONG)

    def wait_until_idle(self, number: int) -> None:
        """Wait until the thread has seen this order; it is idle until the next one."""
        deadline = time.monotonic() + 60
        while self.obeyed != number:
            if time.monotonic() > deadline:
                raise TimeoutError("the second thread did not become idle")
            time.sleep(0.001)
