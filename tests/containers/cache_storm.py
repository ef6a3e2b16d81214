"""A storm: processes fill a cache at its limit and are killed, and the manager, while another one goes on.

`python -m tests.containers.cache_storm 10000 1000000000` kills so many, with a limit of so many bytes, and
prints what was seen.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import manager_pids, wait_until

__all__ = ["run"]

WORKERS, HELD = 4, 4
KILLS_OF_A_MANAGER = 50  # processes from one to the next
BLOCKS = 20  # at most: of the cache, its tables, the arrays of counters, a semaphore
EXITING = 4  # the kernel's PF_EXITING


def started(pid: int) -> int | None:
    """Return when a process started, in ticks; None if it has ended, or is about to."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" or int(fields[6]) & EXITING else int(fields[19])


class User:
    """A process that uses the cache, and checks what it gets."""

    def __init__(self, cache: Any, max_bytes: int, building: Any, failed: Any, longest: Any) -> None:
        self.cache, self.building, self.failed, self.longest = cache, building, failed, longest
        self.keys = len(building)
        self.mean = 3 * max_bytes // self.keys  # so a third of the items has room
        self.gets, self.most = 0, 0.0
        self.held: deque[Any] = deque(maxlen=HELD)
        self.begin()

    def begin(self) -> None:
        self.identity = os.getpid() << 40 | (started(os.getpid()) or 0)
        self.random = random.Random(os.urandom(8))

    def build(self, key: int) -> Any:
        """Build the item of a key, of which no other living process may be the builder now."""
        before = st.atomic.exchange(self.building, key, self.identity)
        if before not in (0, self.identity) and started(before >> 40) == before & ((1 << 40) - 1):
            st.atomic.add(self.failed, 0, 1)
        item = (key, np.full(self.mean * (key % 5) // 16, float(key))) if key % 7 else (key, str(key))
        if st.atomic.exchange(self.building, key, 0) != self.identity:
            st.atomic.add(self.failed, 0, 1)
        return item

    def use(self) -> None:
        key, choice = self.random.randrange(self.keys), self.random.random()
        start = time.perf_counter()
        if choice < 0.02:
            with contextlib.suppress(KeyError):
                del self.cache[key]
            return
        found, item = self.cache.get(key, lambda: self.build(key))
        if (passed := time.perf_counter() - start) > self.most:
            self.most = passed
            st.atomic.maximum(self.longest, 0, int(passed * 1e9))
        whole = item == str(key) if isinstance(item, str) else len(item) == self.mean * (key % 5) // 16
        if found != key or not whole or not (isinstance(item, str) or (item == key).all()):
            st.atomic.add(self.failed, 0, 1)
            raise AssertionError(f"the item of {key} has the key {found} and {item!r}")
        self.gets += 1
        st.atomic.add(self.longest, 1, 1)
        self.held.append(item)


def use_endlessly(user: User, ready: Any) -> None:
    user.begin()
    ready.release()
    while True:
        user.use()


class Storm:
    """What was seen."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.before = st.stats()
        self.cache: Any = st.SharedCache(max_bytes)
        keys = max(300, max_bytes // 100_000)
        building, self.failed, self.longest = (st.zeros(size, "int64") for size in (keys, 1, 2))
        self.user = User(self.cache, max_bytes, building, self.failed, self.longest)
        self.kills = 0
        self.memory: list[tuple[int, int, int]] = []

    @property
    def largest(self) -> int:
        """The bytes of the largest item, and some."""
        return self.user.mean * 4 // 16 * 8 + 4096

    def note(self) -> None:
        stats = st.stats()
        self.memory.append(
            (
                stats["bytes_live"] - self.before["bytes_live"],
                stats["bytes_reserved"],
                stats["arenas"],
            )
        )
        assert self.cache.stats()["bytes"] <= self.max_bytes, self.cache

    def go(self, kills: int) -> None:
        """Kill so many processes, one to three at the same time."""
        context: Any = mp.get_context("fork")
        ready, workers, last = st.Semaphore(0), [], self.kills + kills
        while self.kills < last:
            while len(workers) < WORKERS:
                workers.append(context.Process(target=use_endlessly, args=(self.user, ready)))
                workers[-1].start()
                assert ready.acquire(timeout=60)
            end = time.perf_counter() + random.random() * 0.004
            while time.perf_counter() < end:
                self.user.use()
            random.shuffle(workers)
            victims = [workers.pop() for _ in range(random.randint(1, 3))]
            for victim in victims:
                victim.kill()
            for victim in victims:
                victim.join()
            before, self.kills = self.kills, self.kills + len(victims)
            self.note()
            assert self.failed[0] == 0, f"after {self.kills} kills, {self.failed[0]} failures"
            if before // KILLS_OF_A_MANAGER != self.kills // KILLS_OF_A_MANAGER:
                for pid in manager_pids(st.stats()["session"]):
                    os.kill(pid, signal.SIGKILL)
        for worker in workers:
            worker.kill()
            worker.join()
        for _ in range(self.user.keys):
            self.user.use()
        assert self.failed[0] == 0
        self.check_counts()

    def check_counts(self) -> None:
        """Check that what was counted is what was there: nothing is left of a cache without items."""
        self.user.held.clear()
        self.cache.clear()
        left = self.cache.stats()
        assert (left["items"], left["bytes"]) == (0, 0), left
        most = self.before["blocks"] + BLOCKS
        wait_until(lambda: st.stats()["blocks"] <= most, 60, lambda: f"{most} blocks: {st.stats()}")


def run(kills: int, max_bytes: int) -> Storm:
    """Kill so many processes; return what was seen."""
    storm = Storm(max_bytes)
    storm.go(kills)
    return storm


if __name__ == "__main__":
    begin, seen = time.perf_counter(), Storm(int(sys.argv[2]))
    for _ in range(10):
        seen.go(int(sys.argv[1]) // 10)
        live, reserved, arenas = np.array(seen.memory).max(axis=0)
        seen.memory.clear()
        gets, longest = int(seen.longest[1]), int(seen.longest[0]) / 1e6
        print(
            f"{time.perf_counter() - begin:.0f} s, {seen.kills} kills, {gets} gets, at most {longest:.1f} ms;"
        )
        print(f"  {live / 1e6:.1f} MB live, {reserved / 1e6:.1f} MB reserved, {arenas} arenas at most;")
        print(f"  {seen.cache.stats()}", flush=True)
