"""Primitives of synchronization: actors make them, send them to each other, and use them."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import shmtensor as st
from tests.torture import run_state as states
from tests.torture.queues import DEADLINE
from tests.torture.shared import introduce, inviting

if TYPE_CHECKING:
    from shmtensor.storage import Storage
    from tests.torture.actions import ActorState

MOST = 3  # sets that a thread keeps after an action
UNITS = 2


class SharedLocks(NamedTuple):
    """A primitive of each kind, and two counters that are equal unless a process has the lock."""

    number: int
    lock: st.Lock | st.RLock
    semaphore: st.Semaphore
    event: st.Event
    condition: st.Condition
    barrier: st.Barrier
    counters: st.Tensor

    def storages(self) -> Iterator[Storage]:
        for one in (
            self.lock,
            self.semaphore,
            self.event,
            self.condition,
            self.condition._lock,
            self.barrier,
        ):
            yield one._storage
        yield self.counters.storage()


def make_locks(actor_state: ActorState, rng: random.Random) -> None:
    shared = SharedLocks(
        time.monotonic_ns(),
        rng.choice((st.Lock, st.RLock))(),
        rng.choice((st.Semaphore, st.BoundedSemaphore))(UNITS),
        st.Event(),
        st.Condition(rng.choice((st.Lock, st.RLock))()),
        st.Barrier(2),
        st.zeros(2, np.uint64),
    )
    introduce(actor_state, actor_state.locks, shared, rng)


def drop_locks(actor_state: ActorState, rng: random.Random) -> None:
    if actor_state.locks:
        actor_state.locks.pop(rng.randrange(len(actor_state.locks)))


def use_lock(actor_state: ActorState, shared: SharedLocks, rng: random.Random, timeout: float) -> bool:
    """Change what the lock protects, or repair it after a death. Return False after the timeout."""
    after_death = False
    try:
        if not shared.lock.acquire(timeout=timeout):
            return False
    except st.OwnerDied:
        after_death = True
        actor_state.actor.row[states.OWNERS_DIED] += 1
    try:
        counters = shared.counters.numpy()
        if counters[0] != counters[1] and not after_death:
            raise AssertionError(f"half of a change, and no error: {counters.tolist()}, {shared}")
        counters[:] = mine = counters[0] + 1
        counters[0] = mine + 1
        if rng.random() < 0.2:
            time.sleep(rng.random() * 0.002)
        counters[1] += 1
        if counters.tolist() != [mine + 1] * 2:
            raise AssertionError(f"another process had the lock, too: {counters.tolist()}, {shared}")
    finally:
        shared.lock.release()
    return True


def use_semaphore(_: ActorState, shared: SharedLocks, rng: random.Random, timeout: float) -> bool:
    if not shared.semaphore.acquire(timeout=timeout):
        return False
    try:
        if shared.semaphore.get_value() >= UNITS:
            raise AssertionError(f"a unit is in use, and all are free: {shared}")
        if rng.random() < 0.2:
            time.sleep(rng.random() * 0.002)
    finally:
        shared.semaphore.release()
    return True


def use_event(_: ActorState, shared: SharedLocks, rng: random.Random, timeout: float) -> bool:
    shared.event.set()
    if rng.random() < 0.3:
        shared.event.clear()
    return shared.event.wait(min(timeout, rng.random() * 0.002)) or True


def use_condition(_: ActorState, shared: SharedLocks, rng: random.Random, timeout: float) -> bool:
    with suppress(st.OwnerDied):
        if not shared.condition.acquire(timeout=timeout):
            return False
    try:
        shared.condition.notify(rng.randrange(1, 3))
        with suppress(st.OwnerDied):
            shared.condition.wait(rng.random() * 0.002)
    finally:
        shared.condition.release()
    return True


def use_barrier(_: ActorState, shared: SharedLocks, rng: random.Random, timeout: float) -> bool:
    try:
        shared.barrier.wait(min(timeout, rng.random() * 0.003))
    except threading.BrokenBarrierError:
        shared.barrier.reset()
    return True


USES: tuple[Callable[[ActorState, SharedLocks, random.Random, float], bool], ...] = (
    use_lock, use_semaphore, use_event, use_condition, use_barrier,
)  # fmt: skip


def use_one(actor_state: ActorState, rng: random.Random) -> None:
    """Use a primitive; a stopped process may have it, so give up soon."""
    if actor_state.locks:
        shared = rng.choice(actor_state.locks)
        rng.choices(USES, (6, 4, 1, 2, 1))[0](actor_state, shared, rng, rng.random() * 0.01)


def drain_locks(actor_state: ActorState) -> None:
    """Use all primitives once more, while all processes run, and release them."""
    rng = random.Random(0)
    while actor_state.locks:
        shared = actor_state.locks[-1]
        for use in USES:
            if not use(actor_state, shared, rng, DEADLINE / 2):
                raise AssertionError(f"{use.__name__} waited {DEADLINE / 2:.0f} s: {shared}")
        actor_state.locks.remove(shared)


LOCKS = [(make_locks, 0.3), (inviting("locks"), 0.7), (drop_locks, 0.2), (use_one, 12)]
