"""Queues in shared memory: actors make them, send them to each other, and exchange letters through them."""

from __future__ import annotations

import os
import queue
import random
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import shmtensor as st
from tests.observer.patterns import new_tag
from tests.torture.ledger import Event
from tests.torture.shared import introduce, meet
from tests.torture.transports import Letter, new_letter

if TYPE_CHECKING:
    from tests.torture.actions import ActorState

MOST = 4  # queues that a thread keeps after an action
BACKLOG = 300  # messages; they need rings of three sizes
LIMITS = (0, 0, 3, 40)
DEADLINE = 60.0  # until a message that is there can be taken


class SharedQueue(NamedTuple):
    """A queue and its number. Numbers grow with time."""

    number: int
    queue: st.Queue


class Numbered(NamedTuple):
    """A message: a letter or a queue, with a number of its own."""

    number: int
    content: Letter | SharedQueue


def new_number() -> int:
    return int.from_bytes(os.urandom(6), "little")


def put(
    actor_state: ActorState, shared: SharedQueue, number: int, item: Any, timeout: float | None = None
) -> bool:
    """Put a message; return False if the queue is full or shut down. Without a timeout, do not wait."""
    note = actor_state.state.ledger.note
    note((Event.PUTTING, shared.number, number))
    with actor_state.allowing_loss():  # of the queue's newest ring
        try:
            shared.queue.put(item, timeout is not None, timeout)
        except (queue.Full, st.ShutDown):
            note((Event.REFUSED, shared.number, number))
            return False
        note((Event.PUT, shared.number, number))
        return True
    return False


def take(
    actor_state: ActorState, shared: SharedQueue, timeout: float | None = None, most: int = 1
) -> list[Letter]:
    """Take at most that many messages; without a timeout, do not wait. Queues among them are kept."""
    note = actor_state.state.ledger.note
    note((Event.GETTING, shared.number, most))

    def get() -> list[Any]:
        try:
            if most == 1:
                return [shared.queue.get(timeout is not None, timeout)]
            return shared.queue.get_many(most, timeout is not None, timeout)
        except (queue.Empty, st.ShutDown):
            return []

    try:
        items = actor_state.first(get)
        if items is None:
            return []
        numbers = [number_of(item) for item in items]
        events = [(Event.GOT, shared.number, number) for number in numbers]
        note(*events, (Event.DONE_GETTING, shared.number, most))
    except BaseException:
        note((Event.FAILED, shared.number, most))
        raise
    letters = []
    for item in items:
        content = item.content if isinstance(item, Numbered) else letter_of(item)
        if isinstance(content, SharedQueue):
            meet(actor_state.queues, content)
        else:
            letters.append(content)
    return letters


def number_of(item: Numbered | st.Tensor) -> int:
    """Return the number of a message; that of a tensor alone is in its first word."""
    if isinstance(item, Numbered):
        return item.number
    return int(item.numpy()[0]) & ((1 << 48) - 1)


def letter_of(tensor: st.Tensor) -> Letter:
    return Letter(new_tag(number_of(tensor)), tensor.shape[0], "whole", tensor)


def make_queue(actor_state: ActorState, rng: random.Random) -> None:
    if not actor_state.state.has_queues:
        return
    shared = SharedQueue(time.monotonic_ns(), st.Queue(rng.choice(LIMITS), redeliver=rng.random() < 0.4))
    if shared.queue.redeliver:
        actor_state.state.ledger.note((Event.REDELIVERS, shared.number, 0))
    introduce(actor_state, actor_state.queues, shared, rng)


def invite(actor_state: ActorState, rng: random.Random) -> None:
    """Send a queue through a mailbox, or through a newer queue: queues in a cycle would not be freed."""
    if not actor_state.queues:
        return
    shared, carrier = rng.choice(actor_state.queues), rng.choice(actor_state.queues)
    if shared.number < carrier.number:
        number = new_number()
        put(actor_state, carrier, number, Numbered(number, shared))
    else:
        rng.choice(actor_state.state.boxes).send(shared)


def choose_timeout(rng: random.Random) -> float | None:
    return rng.choice((None, 0.0, 0.001, rng.random() * 0.03))


def put_letter(actor_state: ActorState, rng: random.Random) -> None:
    """Put a tensor alone, a letter that is held, or a private tensor, which is copied."""
    if not actor_state.queues:
        return
    shared, number, kind = rng.choice(actor_state.queues), new_number(), rng.randrange(4)
    if shared.queue.qsize() > BACKLOG:
        return
    if kind == 0:
        item = new_letter(new_tag(number), rng.randrange(2, 3000)).tensor
    elif kind == 1 or not actor_state.held:
        item = Numbered(number, new_letter(new_tag(number), rng.randrange(2, 3000), True))
    else:
        item = Numbered(number, rng.choice(actor_state.held))
    put(actor_state, shared, number, item, choose_timeout(rng))


def put_burst(actor_state: ActorState, rng: random.Random) -> None:
    """Put so many messages that the queue needs another ring."""
    for _ in range(rng.randrange(20, 80)):
        put_letter(actor_state, rng)


def take_letter(actor_state: ActorState, rng: random.Random) -> None:
    if actor_state.queues:
        for letter in take(actor_state, rng.choice(actor_state.queues), choose_timeout(rng)):
            actor_state.keep(letter)


def take_many(actor_state: ActorState, rng: random.Random) -> None:
    if actor_state.queues:
        for letter in take(
            actor_state, rng.choice(actor_state.queues), choose_timeout(rng), rng.randrange(2, 40)
        ):
            actor_state.keep(letter)


def shut_down(actor_state: ActorState, rng: random.Random) -> None:
    if not actor_state.queues:
        return
    shared = rng.choice(actor_state.queues)
    immediate = rng.random() < 0.3
    if immediate:
        actor_state.state.ledger.note((Event.DISCARDED, shared.number, 0))
    shared.queue.shutdown(immediate)


def drop_queue(actor_state: ActorState, rng: random.Random) -> None:
    if actor_state.queues:
        actor_state.queues.pop(rng.randrange(len(actor_state.queues)))


def drain_queues(actor_state: ActorState) -> bool:
    """Take all messages of all queues, and release the queues; return False if there were no queues."""
    found = bool(actor_state.queues)
    while actor_state.queues:
        shared = actor_state.queues[-1]
        deadline = time.monotonic() + DEADLINE
        while not shared.queue.empty():
            if time.monotonic() > deadline:
                raise AssertionError(f"a message cannot be taken: {shared.queue}")
            for letter in take(actor_state, shared, 0.001):
                actor_state.keep(letter)
            actor_state.held.clear()
        actor_state.state.ledger.note((Event.DRAINED, shared.number, 0))
        actor_state.queues.remove(shared)
    return found


QUEUES = [
    (make_queue, 0.6), (invite, 1.5), (put_letter, 14), (put_burst, 0.4), (take_letter, 18), (take_many, 1.0),
    (shut_down, 0.1), (drop_queue, 0.3),
]  # fmt: skip
