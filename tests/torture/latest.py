"""The newest letter: actors make such values, send them to each other, set letters and get them."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import shmtensor as st
from tests.observer.patterns import new_tag
from tests.torture.queues import choose_timeout
from tests.torture.shared import introduce, inviting
from tests.torture.transports import Letter, new_letter

if TYPE_CHECKING:
    from shmtensor.storage import Storage
    from tests.torture.actions import ActorState

MOST = 2  # that a thread keeps after an action


class SharedLatest(NamedTuple):
    """The newest letter and its number."""

    number: int
    latest: st.Latest[Letter]

    def storages(self) -> Iterator[Storage]:
        yield self.latest._storage
        if (letter := self.latest._newest[1]) is not None:
            yield letter.tensor.storage()


def make_latest(actor_state: ActorState, rng: random.Random) -> None:
    if not actor_state.state.has_queues:
        return
    shared = SharedLatest(time.monotonic_ns(), st.Latest())
    introduce(actor_state, actor_state.latest, shared, rng)


def set_letter(actor_state: ActorState, rng: random.Random) -> None:
    if not actor_state.latest:
        return
    letter = new_letter(new_tag(rng.getrandbits(48)), rng.randrange(2, 3000), rng.random() < 0.3)
    if actor_state.held and rng.random() < 0.5:
        letter = rng.choice(actor_state.held)
    with actor_state.allowing_loss():
        rng.choice(actor_state.latest).latest.set(letter)


def get_letter(actor_state: ActorState, rng: random.Random) -> None:
    """Get the newest letter, or wait for a newer one; it is never an older one."""
    if not actor_state.latest:
        return
    latest, timeout = rng.choice(actor_state.latest).latest, choose_timeout(rng)
    version, after = latest.received, None if timeout is None else latest.received

    def get() -> Letter | None:
        try:
            return latest.get(after, timeout)
        except TimeoutError:
            return None

    letter = actor_state.first(get)
    if latest.received < version:
        raise AssertionError(f"version {latest.received} was received after {version}")
    if letter is not None:
        actor_state.keep(letter)


LATEST = [(make_latest, 0.3), (inviting("latest"), 0.7), (set_letter, 6), (get_letter, 10)]
