"""A storm: a writer and a reader of a `Latest` are killed, and the manager, while another reader goes on.

`python -m tests.queues.latest_storm 1000` prints what the reader saw.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from typing import Any

import numpy as np

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import manager_pids

__all__ = ["run"]

WORDS = 20_000
KILLS_OF_A_MANAGER = 50  # processes from one to the next


def write(latest: st.Latest[Any], ready: Any) -> None:
    """Set values, half of them in memory of earlier ones."""
    number = latest.get()[0]
    ready.release()
    while True:
        number += 1
        if number % 2:
            latest.set((number, np.full(WORDS, float(number))))
        else:
            latest.set((number, st.full(WORDS, float(number))))


def read(latest: st.Latest[Any], ready: Any) -> None:
    ready.release()
    while True:
        latest.get(after=latest.received)


class Checker:
    """A reader that checks each value."""

    def __init__(self, latest: st.Latest[Any]) -> None:
        self.latest, self.reads, self.values, self.version = latest, 0, 0, 0

    def read(self, seconds: float) -> None:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for _ in range(100):
                number, array = self.latest.get()
            self.reads += 100
            version = self.latest.received
            assert version >= self.version, f"version {version} after {self.version}"
            if version == self.version:
                continue
            self.version, self.values = version, self.values + 1
            found = np.asarray(array)
            assert (found == number).all(), f"value {number} has {np.unique(found)}"


def run(kills: int) -> Checker:
    """Kill so many processes; return the reader that has checked all it got."""
    context: Any = mp.get_context("fork")
    latest: Any = st.Latest((0, np.zeros(WORDS)))
    checker, ready, users = Checker(latest), st.Semaphore(0), {}
    for number in range(kills):
        for kind in (write, read):
            if kind not in users:
                users[kind] = context.Process(target=kind, args=(latest, ready))
                users[kind].start()
                assert ready.acquire(timeout=60)
        checker.read(random.random() * 0.004)
        victim = users.pop(random.choice((write, write, read)))
        victim.kill()
        victim.join()
        if number % KILLS_OF_A_MANAGER == KILLS_OF_A_MANAGER - 1:
            for pid in manager_pids(st.stats()["session"]):
                os.kill(pid, signal.SIGKILL)
    for user in users.values():
        user.kill()
        user.join()
    checker.read(0.01)
    latest.set((-1, np.full(WORDS, -1.0)))
    assert latest.get()[0] == -1
    return checker


if __name__ == "__main__":
    seen = run(int(sys.argv[1]))
    print(f"{seen.reads} reads, {seen.values} different values, version {seen.version}")
