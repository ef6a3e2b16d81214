"""Weights in GPU memory of shmtensor: those of a killed publisher, and the newest ones in two engines.

``python -m probes.values [--json FILE] [--seconds N]`` on a machine with a GPU of 80 GB; torch is not needed.
A tree of 14 GB in 300 tensors of float16. Kept: a process publishes it with ``keep=True`` and is killed, the
last of its session; the next process attaches it. Newest: a trainer writes each generation into the memory
that `Latest.next` gives, and two engines take it where it is. Measured, in milliseconds: `attach`, and the
first element read; a generation written, and an element read in both engines, which is checked; and what
remains in use on the GPU. On the simulated driver the tensors are small, and no time is kept.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from contextlib import ExitStack
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import numpy as np

import shmtensor as st
import shmtensor.multiprocessing as mp
from probes.consumer import consumer
from probes.deaths import SIMULATED, forget, used_bytes, wait_until
from probes.driver import driver
from probes.ways import measure_all

if TYPE_CHECKING:
    from collections.abc import Callable

TENSORS = 300
COUNT = 1000 if SIMULATED else 14_000_000_000 // TENSORS // 2  # elements of a tensor
GENERATIONS = 8  # the first one warms up
ENGINES = 2
NAME = "probes/weights"


def tree() -> list[st.Tensor]:
    """Return tensors on the GPU, not filled."""
    return [st.empty(COUNT, "f2", device="cuda") for _ in range(TENSORS)]


def mark(weights: list[st.Tensor], generation: int) -> None:
    """Write a number into the last element."""
    weights[-1][-1:].copy_(np.array([generation], "f2"))


def mark_of(weights: list[st.Tensor]) -> int:
    """Return the number in the last element."""
    return int(weights[-1][-1:].cpu().numpy()[0])


def note_left(found: dict[str, Any], unused: int) -> None:
    """Fill in what is in use beyond `unused` bytes, once the driver has had time to free it."""
    wait_until(lambda: used_bytes() <= unused, 5)
    found["left"] = {"MiB": (used_bytes() - unused) / (1 << 20)}


def publish(_inbox: Any, answers: Any) -> None:
    """Publish weights that are kept, and wait to be killed."""
    weights = tree()
    mark(weights, 7)
    st.publish(NAME, weights, keep=True)
    answers.send_bytes(b"published")
    time.sleep(100)


def attach(_inbox: Any, answers: Any) -> None:
    """Attach the weights, answer with the milliseconds, and unpublish them."""
    driver()
    began = time.perf_counter()
    weights = st.attach(NAME)
    attached = time.perf_counter()
    found = mark_of(weights)
    read = time.perf_counter()
    del weights
    st.unpublish(NAME)
    answers.send_bytes(f"{found} {(attached - began) * 1e3} {(read - began) * 1e3}".encode())


def kept(found: dict[str, Any], write: Callable[[], None]) -> None:
    """Measure an engine that starts again; this process is not in its session."""
    unused = used_bytes()
    os.environ["SHMTENSOR_SESSION"] = f"probes {os.getpid()}"
    try:
        with consumer(get_context("spawn"), publish) as publisher:
            publisher.answer()
        found["kept"] = {"MiB": (used_bytes() - unused) / (1 << 20)}
        with consumer(get_context("spawn"), attach) as again:
            number, attached, read = map(float, again.answer().split())
            again.process.join()
    finally:
        del os.environ["SHMTENSOR_SESSION"]
    if number != 7:
        raise RuntimeError(f"the kept weights end with {number}")
    if not SIMULATED:
        found["ms"] = {"attached": attached, "read": read}
    note_left(found, unused)
    write()


def follow(inbox: Any, answers: Any) -> None:
    """Take each generation where it is."""
    latest = inbox.get()
    while True:
        weights = latest.get(after=latest.received)
        answers.send_bytes(str(mark_of(weights)).encode())


def newest(found: dict[str, Any], write: Callable[[], None]) -> None:
    """Measure the generations."""
    driver()
    unused = used_bytes()
    weights, latest = tree(), st.Latest(tree())
    written, read = [], []
    with ExitStack() as stack:
        engines = [stack.enter_context(consumer(mp.get_context("spawn"), follow)) for _ in range(ENGINES)]
        for engine in engines:
            engine.put(latest)
            engine.answer()
        for generation in range(GENERATIONS):
            mark(weights, generation)
            start = time.perf_counter()
            with latest.next() as value:
                for target, source in zip(value, weights, strict=True):
                    target.copy_(source)
            written.append((time.perf_counter() - start) * 1e3)
            answers = [int(engine.answer()) for engine in engines]
            read.append((time.perf_counter() - start) * 1e3)
            if answers != [generation] * ENGINES:
                raise RuntimeError(f"the engines read {answers} in generation {generation}")
    if not SIMULATED:
        found["ms"] = {"written": statistics.median(written[1:]), "read": statistics.median(read[1:])}
    del weights, latest, value, target, source
    forget()
    note_left(found, unused)
    write()


# The first one's process must not be in a session.
WAYS = {"shmtensor, kept": kept, "shmtensor, newest": newest}

if __name__ == "__main__":
    sys.exit(measure_all(__doc__, WAYS, on_simulator=True))
