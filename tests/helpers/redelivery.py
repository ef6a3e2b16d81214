"""Items of a queue that redelivers, and consumers that are killed."""

from __future__ import annotations

import signal

import numpy as np

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import wait_until

SECONDS = 60

ITEMS = {
    "small": lambda: 7,
    "text": lambda: "x" * 10_000,
    "tensor": lambda: st.full(100, 7),
    "list": lambda: [st.full(10, 7), 7, st.full(20, 7)],
    "array": lambda: np.full(100_000, 7),
    "pickle": lambda: {"a": st.full(5, 7), "b": [st.full(6, 7)]},
}


def take(q: st.Queue, count: int, ready) -> None:
    """Be a consumer that takes some items, completes all but the last, and is then killed."""
    kept = [q.get(timeout=SECONDS) for _ in range(count)]
    ready.put(len(kept))
    signal.pause()


def kill_after(work, q: st.Queue) -> None:
    """Run `work(q)` in a process that is killed afterwards."""

    def run() -> None:
        work(q)
        ready.put(True)
        signal.pause()

    before = st.stats()["processes"]
    ready = mp.SimpleQueue()
    worker = mp.get_context("fork").Process(target=run)
    worker.start()
    assert ready.get()
    worker.kill()
    worker.join(SECONDS)
    worker.close()
    ready.close()
    wait_until(lambda: st.stats()["processes"] <= before, what="the death to be noticed")


def start_consumer(q: st.Queue, count: int = 1, method: str | None = None):
    """Return a process that has taken so many items."""
    ready = mp.SimpleQueue()
    worker = mp.get_context(method).Process(target=take, args=(q, count, ready))
    worker.start()
    assert ready.get() == count
    ready.close()
    return worker


def kill_a_consumer(q: st.Queue, count: int = 1) -> None:
    """Return after the messages of the consumer were returned."""
    worker = start_consumer(q, count)
    before = q.qsize()
    worker.kill()
    worker.join(SECONDS)
    worker.close()
    wait_until(lambda: q.qsize() == before + 1, what="the message to be returned")
