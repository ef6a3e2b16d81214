"""A storm: processes that use each primitive are killed at random instants, and sometimes the manager.

`python -m tests.locks.storm 10000` prints the longest wait of the process that survives.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import manager_pids

__all__ = ["run"]

VICTIMS = 5
KILLS_OF_A_MANAGER = 250  # victims from one to the next


def use_lock(lock: Any) -> None:
    with suppress(st.OwnerDied):
        lock.acquire()
    lock.release()


def use_semaphore(semaphore: Any) -> None:
    with semaphore:
        pass


def use_event(event: Any) -> None:
    event.set()
    event.wait()
    event.clear()


def use_condition(condition: Any) -> None:
    with suppress(st.OwnerDied), condition:
        condition.notify()
        condition.wait(0.01)


def use_barrier(barrier: Any) -> None:
    try:
        barrier.wait(0.01)
    except threading.BrokenBarrierError:
        barrier.reset()


USES: list[tuple[Callable[[Any], None], Any]] = [
    (use_lock, st.Lock),
    (use_lock, st.RLock),
    (use_semaphore, lambda: st.BoundedSemaphore(2)),
    (use_event, st.Event),
    (use_condition, st.Condition),
    (use_barrier, lambda: st.Barrier(2)),
]


def use_until_killed(use: Callable[[Any], None], primitive: Any, ready: Any) -> None:
    ready.release()
    while True:
        use(primitive)


def run(kills: int) -> tuple[list[Any], float]:
    """Kill so many processes; return the primitives and the longest use by this process, in seconds."""
    context: Any = mp.get_context("fork")
    primitives = [(use, make()) for use, make in USES]
    ready, victims, longest = st.Semaphore(0), [], 0.0
    for number in range(kills):
        while len(victims) < VICTIMS:
            arguments = (*primitives[random.randrange(len(primitives))], ready)
            victims.append(context.Process(target=use_until_killed, args=arguments))
            victims[-1].start()
            assert ready.acquire(timeout=60)
        time.sleep(random.random() * 0.001)
        victim = victims.pop(random.randrange(VICTIMS))
        victim.kill()
        victim.join()
        if number % KILLS_OF_A_MANAGER == KILLS_OF_A_MANAGER - 1:
            for pid in manager_pids(st.stats()["session"]):
                os.kill(pid, signal.SIGKILL)
        for use, primitive in primitives:
            start = time.perf_counter()
            use(primitive)
            longest = max(longest, time.perf_counter() - start)
    for victim in victims:
        victim.kill()
        victim.join()
    return [primitive for _, primitive in primitives], longest


def main(kills: int) -> None:
    """Check that the primitives are as before."""
    (lock, recursive, semaphore, event, condition, barrier), longest = run(kills)
    for one in (lock, recursive):
        with suppress(st.OwnerDied):
            assert one.acquire(timeout=60)
        one.release()
    with suppress(st.OwnerDied), condition:
        condition.notify_all()
    for _ in range(2):
        assert semaphore.acquire(timeout=60)
    assert not semaphore.acquire(block=False)
    event.set()
    assert event.wait(60)
    barrier.reset()
    assert not barrier.broken
    assert not any(one.locked() for one in (lock, recursive))
    print(f"{kills} killed; longest wait {longest * 1000:.0f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]))
