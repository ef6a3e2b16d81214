"""Broadcasts: actors make them, send them to each other, put letters, and read as readers."""

from __future__ import annotations

import os
import queue
import random
import time
from typing import TYPE_CHECKING, NamedTuple

import shmtensor as st
from tests.observer.patterns import new_tag
from tests.torture import run_state as states
from tests.torture.queues import DEADLINE, choose_timeout, new_number
from tests.torture.shared import introduce, inviting
from tests.torture.transports import Letter, new_letter

if TYPE_CHECKING:
    from tests.torture.actions import ActorState

MOST = 2  # broadcasts, and readers, that a thread keeps after an action
ON_FULL = ("block", "drop_oldest", "raise")


class SharedBroadcast(NamedTuple):
    """A broadcast and its number."""

    number: int
    broadcast: st.Broadcast


class Page(NamedTuple):
    """A message: a letter, and its number among those that its writer put into the broadcast."""

    writer: int
    number: int
    letter: Letter


class Reader:
    """A reader, and the last message of each writer that it received."""

    def __init__(self, shared: SharedBroadcast, newest: bool) -> None:
        self.shared, self.reader = shared, shared.broadcast.reader(newest=newest)
        self.last: dict[int, int] = {}
        self.gap = 0  # messages that were put after one of their writer, and not received
        self.may_lose = False  # whether a `get` was interrupted

    def get(self, actor_state: ActorState, timeout: float | None) -> Letter | None:
        """Return the next letter; None if there is none."""
        interrupted_before, self.may_lose = self.may_lose, True

        def take() -> Page | None:
            try:
                return self.reader.get(timeout is not None, timeout)
            except (queue.Empty, st.ShutDown):
                self.may_lose = interrupted_before
                return None

        page = actor_state.first(take)
        if page is None:
            return None
        self.may_lose = interrupted_before
        actor_state.actor.row[states.PAGES] += 1
        if (why := self.problem(page)) is not None:
            raise AssertionError(f"{why}: writer {page.writer:#x}, {self.shared.broadcast}, {self.reader}")
        return page.letter

    def problem(self, page: Page) -> str | None:
        """Note a message; return what is wrong with its number."""
        last = self.last.get(page.writer, page.number - 1)
        self.last[page.writer] = page.number
        if page.number <= last:
            return f"message {page.number} was received after {last}"
        self.gap += page.number - last - 1
        if self.gap > self.reader.missed and not self.may_lose:
            return f"{self.gap} messages were not received, before message {page.number}"
        return None


def make_broadcast(actor_state: ActorState, rng: random.Random) -> None:
    if not actor_state.state.has_queues:
        return
    broadcast = st.Broadcast(rng.choice((1, 3, 20, 200)), rng.choice(ON_FULL))
    shared = SharedBroadcast(time.monotonic_ns(), broadcast)
    introduce(actor_state, actor_state.broadcasts, shared, rng)


def put_page(actor_state: ActorState, rng: random.Random) -> None:
    if not actor_state.broadcasts:
        return
    shared, timeout = rng.choice(actor_state.broadcasts), choose_timeout(rng)
    letter = new_letter(new_tag(rng.getrandbits(48)), rng.randrange(2, 3000), rng.random() < 0.3)
    if actor_state.held and rng.random() < 0.5:
        letter = rng.choice(actor_state.held)
    # Not kept across an exception, after which the message may have been put or not; nor across a fork.
    key = (shared.number, os.getpid())
    writer, number = actor_state.writers.pop(key, (new_number(), 0))
    try:
        shared.broadcast.put(Page(writer, number, letter), timeout is not None, timeout)
        number += 1
    except (queue.Full, st.ShutDown):
        pass
    actor_state.writers[key] = writer, number


def join_as_reader(actor_state: ActorState, rng: random.Random) -> None:
    if actor_state.broadcasts:
        actor_state.readers.append(Reader(rng.choice(actor_state.broadcasts), rng.random() < 0.3))


def get_page(actor_state: ActorState, rng: random.Random) -> None:
    if actor_state.readers:
        letter = rng.choice(actor_state.readers).get(actor_state, choose_timeout(rng))
        if letter is not None:
            actor_state.keep(letter)


def shut_down(actor_state: ActorState, rng: random.Random) -> None:
    if actor_state.broadcasts:
        rng.choice(actor_state.broadcasts).broadcast.shutdown()


def drain_broadcasts(actor_state: ActorState) -> None:
    """Get all messages of all readers, and release readers and broadcasts."""
    while actor_state.readers:
        reader = actor_state.readers[-1]
        deadline = time.monotonic() + DEADLINE
        while reader.reader.lag():
            if time.monotonic() > deadline:
                raise AssertionError(f"a message cannot be received: {reader.shared.broadcast}")
            if letter := reader.get(actor_state, 0.001):
                actor_state.keep(letter)
            actor_state.held.clear()
        actor_state.readers.remove(reader)
    actor_state.broadcasts.clear()
    actor_state.writers.clear()


BROADCASTS = [
    (make_broadcast, 0.3), (inviting("broadcasts"), 0.7), (put_page, 8), (join_as_reader, 0.6),
    (get_page, 16), (shut_down, 0.05),
]  # fmt: skip
