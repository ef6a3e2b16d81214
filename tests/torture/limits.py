"""Actions under a limit of their process: address space, heap, file size, locked memory, cgroup, processes.

What does not fit raises an exception that names it. A message whose first load fails is loaded again when
the limit is lifted, and a message that was sent in this time arrives once.
"""

from __future__ import annotations

import os
import random
import resource
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.observer.patterns import new_tag
from tests.torture import queues
from tests.torture import run_state as states
from tests.torture.blows import check_all, in_child, is_alone
from tests.torture.imposed import KIB, LIMITS, MIB
from tests.torture.transports import Letter, as_view, new_letter, read_file, write_file

if TYPE_CHECKING:
    from tests.torture.actions import ActorState

REFUSALS = (OSError, MemoryError, st.SessionError)  # OutOfSharedMemory is a MemoryError
MESSAGES = 20  # at most that many are sent under one limit


class Limited:
    """What an actor does under one limit."""

    def __init__(self, actor_state: ActorState, rng: random.Random, lift: Callable[[], None]) -> None:
        self.actor_state, self.rng, self.lift = actor_state, rng, lift
        self.hog: list[bytes] = []
        self.large: list[st.Tensor] = []
        self.unread: list[tuple[bytes, bool]] = []
        self.reader, self.writer = mp.Pipe(False)
        self.sent = bytearray(MESSAGES)  # 1: `send` returned; assigning needs no memory
        self.number = 0

    def fill_heap(self) -> None:
        """Take all of the heap but a random part, so that small allocations fail, too."""
        most = self.rng.randrange(1, 300)
        for size in (MIB, 64 * KIB, 4 * KIB, 480, 48):
            with suppress(MemoryError):
                while len(self.hog) < 100_000:
                    self.hog.append(bytes(size))
        del self.hog[-most:]

    def act(self) -> None:
        """Run one action; count it if the limit refuses it."""
        try:
            self.rng.choice(ACTIONS)(self)
        except REFUSALS:
            self.actor_state.actor.row[states.REFUSED] += 1

    def end(self) -> None:
        """Lift the limit, load what could not be loaded, and check what was sent."""
        self.hog.clear()
        self.lift()
        self.large.clear()
        for content, may_be_stale in self.unread:
            self._load_again(content, may_be_stale)
        with self.reader, self.writer:
            while self.reader.poll(0):
                message = self.actor_state.first(self.reader.recv)
                if message is None:  # which number it had is unknown
                    self.sent = bytearray(MESSAGES)
                    continue
                number, letter = message
                if self.sent[number] == 2:
                    raise AssertionError(f"message {number} arrived twice")
                self.sent[number] = 2
                self.actor_state.keep(letter)
        if 1 in self.sent:
            raise AssertionError(f"messages were sent and have not arrived: {bytes(self.sent)!r}")
        check_all(self.actor_state)

    def _load_again(self, content: bytes, may_be_stale: bool) -> None:
        try:
            letter = self.actor_state.receive(content)
        except st.StaleHandleError:
            if not may_be_stale:
                raise
            return
        if letter is not None:
            self.actor_state.keep(letter)

    def load(self, content: bytes | None) -> Letter | None:
        """Load a message for the first time; a refused message must still be there afterwards.

        If the heap is exhausted, the tensor may have been made already, and be released again.
        """
        if content is None:
            return None
        self.unread.append((content, True))  # before the load: appending may fail, too
        try:
            letter = self.actor_state.receive(content)
        except (OSError, st.OutOfSharedMemory, st.SessionError):
            self.unread[-1] = (content, False)
            raise
        self.unread.pop()
        return letter


def allocate(limited: Limited) -> None:
    letter = new_letter(new_tag(limited.rng.getrandbits(48)), limited.rng.randrange(2, 20_000))
    limited.actor_state.held.append(letter)


def allocate_much(limited: Limited) -> None:
    """Allocate memory that is released with the limit, without a pattern, which needs private memory."""
    if len(limited.large) > 3:
        limited.large.clear()
    limited.large.append(st.empty(limited.rng.randrange(1, 96) * MIB, "uint8"))


def release(limited: Limited) -> None:
    if limited.actor_state.held:
        limited.actor_state.held.pop(limited.rng.randrange(len(limited.actor_state.held)))


def make_view(limited: Limited) -> None:
    if limited.actor_state.held:
        limited.actor_state.held.append(as_view(limited.rng.choice(limited.actor_state.held), limited.rng))


def post(limited: Limited) -> None:
    if limited.actor_state.held:
        limited.rng.choice(limited.actor_state.state.boxes).send(limited.rng.choice(limited.actor_state.held))


def post_private(limited: Limited) -> None:
    letter = new_letter(new_tag(limited.rng.getrandbits(48)), limited.rng.randrange(2, 3000), True)
    limited.rng.choice(limited.actor_state.state.boxes).send(letter)


def write(limited: Limited) -> None:
    """Send through a pipe of the drop-in, which is read when the limit is lifted."""
    if limited.actor_state.held and limited.number < MESSAGES:
        number = limited.number
        limited.number += 1
        limited.writer.send((number, limited.rng.choice(limited.actor_state.held)))
        limited.sent[number] = 1


def collect(limited: Limited) -> None:
    letter = limited.load(limited.rng.choice(limited.actor_state.state.boxes).receive_bytes())
    if letter is not None:
        limited.actor_state.keep(letter)


def write_mail(limited: Limited) -> None:
    state = limited.actor_state.state
    if limited.actor_state.held and len(os.listdir(state.mail)) < 40:
        write_file(limited.rng.choice(limited.actor_state.held), state.mail, limited.actor_state.number())


def read_mail(limited: Limited) -> None:
    letter = limited.load(read_file(limited.actor_state.state.mail, limited.rng))
    if letter is not None:
        limited.actor_state.keep(letter)


def put_letter(limited: Limited) -> None:
    queues.put_letter(limited.actor_state, limited.rng)


def put_burst(limited: Limited) -> None:
    queues.put_burst(limited.actor_state, limited.rng)


def take_letter(limited: Limited) -> None:
    queues.take_letter(limited.actor_state, limited.rng)


def gc(limited: Limited) -> None:
    st.gc()


def fork(limited: Limited) -> None:
    """Fork a child, which lifts its limit; it can read what it inherited, and perhaps nothing else."""

    def fork() -> int:
        pid = os.fork()
        if pid == 0:
            limited.hog.clear()
            limited.lift()
        return pid

    def inside() -> None:
        check_all(limited.actor_state)
        limited.actor_state.held.clear()
        with suppress(st.SessionError):  # the request for a slot was refused
            st.empty(100)

    in_child(limited.actor_state, inside, fork)


ACTIONS = (
    allocate, allocate_much, release, make_view, post, post, post_private, write, write, collect, collect,
    collect, write_mail, read_mail, gc, fork, put_letter,
    put_letter, put_burst, take_letter, take_letter,
)  # fmt: skip


def act_under_limit(actor_state: ActorState, rng: random.Random) -> None:
    """Run a few actions under a limit, and check what became of them after it was lifted."""
    if not is_alone(actor_state):  # the limits are those of a process
        return
    st.empty(1)  # a limit is imposed on a member of the session
    lift = rng.choice(LIMITS)(actor_state.state, rng)
    if lift is None:
        return
    limited = None
    try:
        limited = Limited(actor_state, rng, lift)
        if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY and rng.random() < 0.5:
            limited.fill_heap()
        for _ in range(rng.randrange(1, 40)):
            if states.order_on(actor_state.actor.board)[0] != states.RUN:
                break
            limited.act()
    except (OSError, MemoryError):
        pass  # of a statement here
    finally:
        if limited is None:
            lift()
        else:
            limited.end()


LIMITED = [(act_under_limit, 1.5)]
