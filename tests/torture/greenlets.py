"""Actions whose messages are interleaved by greenlets, which switch inside a pickle, as under gevent."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import greenlet

import shmtensor.multiprocessing as mp
from tests.observer.patterns import new_tag
from tests.torture import run_state as states
from tests.torture.ledger import Event
from tests.torture.queues import Numbered, choose_timeout, new_number, put, take_letter
from tests.torture.transports import Letter, new_letter

if TYPE_CHECKING:
    from tests.torture.actions import ActorState


class Refused(Exception):
    """A reducer raised it: the message is not sent."""


def switch() -> None:
    """Let another greenlet of this thread run; does nothing in a thread's first greenlet."""
    hub = greenlet.getcurrent().parent
    if hub is not None:
        hub.switch()


class Switch:
    """An object that lets another greenlet run when it is pickled and when it is unpickled."""

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails

    def __reduce__(self) -> tuple[Any, ...]:
        switch()
        if self.fails:
            raise Refused
        return _unpickle_switch, ()


def _unpickle_switch() -> None:
    switch()


def _unpickle_letter(_before: None, letter: tuple[Any, ...], _after: None) -> Letter:
    return Letter(*letter)


class SwitchingLetter:
    """A letter whose pickle switches before and after the tensor; it is unpickled as a `Letter`."""

    def __init__(self, letter: Letter, fails: bool) -> None:
        self.letter, self.fails = letter, fails

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle_letter, (Switch(), tuple(self.letter), Switch(self.fails))


def run_interleaved(bodies: list[Callable[[], None]], rng: random.Random, ends_early: bool) -> int:
    """Run each function in a greenlet of its own, in random order; return the number of switches.

    If it `ends_early`, greenlets are deleted where they are, which raises GreenletExit there.
    """
    tasks = [greenlet.greenlet(body) for body in bodies]
    switches = 0
    while tasks:
        task = rng.choice(tasks)
        task.switch()
        switches += 1
        if task.dead:
            tasks.remove(task)
        elif ends_early and rng.random() < 0.2:
            tasks.clear()
    return switches


def act_in_greenlets(actor_state: ActorState, rng: random.Random) -> None:
    """Send and receive in greenlets: a message that fails affects no other one.

    A letter that arrives through the pipe is kept, one that the boxes have is received by any actor.
    """
    if not actor_state.held:
        return
    reader, writer = mp.Pipe(False)

    def choose() -> SwitchingLetter:
        private = rng.random() < 0.2
        letter = (
            new_letter(new_tag(rng.getrandbits(48)), 100, True) if private else rng.choice(actor_state.held)
        )
        return SwitchingLetter(letter, rng.random() < 0.3)

    def post() -> None:
        with suppress(Refused):
            rng.choice(actor_state.state.boxes).send(choose())

    def write() -> None:
        with suppress(Refused):
            writer.send(choose())

    def collect() -> None:
        letter = actor_state.receive(rng.choice(actor_state.state.boxes).receive_bytes())
        if letter is not None:
            actor_state.keep(letter)

    def read() -> None:
        if reader.poll(0) and (letter := actor_state.first(reader.recv)) is not None:
            actor_state.keep(letter)

    def put_switching() -> None:
        if actor_state.queues:
            shared, number = rng.choice(actor_state.queues), new_number()
            try:
                put(actor_state, shared, number, Numbered(number, choose()), choose_timeout(rng))
            except Refused:
                actor_state.state.ledger.note((Event.REFUSED, shared.number, number))

    kinds = [post, write, collect, read, put_switching, lambda: take_letter(actor_state, rng)]
    bodies = rng.choices(kinds, [3, 3, 2, 1, 3, 2], k=rng.randrange(2, 6))
    with reader, writer:
        actor_state.actor.row[states.SWITCHES] += run_interleaved(bodies, rng, rng.random() < 0.1)
        while reader.poll(0):
            read()


GREENLETS = [(act_in_greenlets, 2.0)]
