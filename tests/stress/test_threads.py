"""Eight threads of two processes allocate, send, receive, view and free concurrently."""

from __future__ import annotations

import random
import sys
import threading
import time

import numpy as np
import pytest

import shmtensor as st
from tests.helpers.children import running
from tests.helpers.datagrams import Mailbox
from tests.helpers.threads import run_together

THREADS = 8
SECONDS = 3.0


def work(seed: int, boxes: list[Mailbox], until: float, problems: list[str]) -> None:
    """All elements of a received tensor are the number that its sender wrote."""
    rng = random.Random(seed)
    held: list[tuple[int, st.Tensor]] = []
    try:
        while time.monotonic() < until:
            for _ in range(20):
                choice = rng.randrange(6)
                if choice == 0:
                    value = rng.randrange(1 << 30)
                    held.append((value, st.full(rng.choice([1, 100, 20_000]), value, np.int64)))
                elif choice == 1 and held:
                    rng.choice(boxes).send(rng.choice(held))
                elif choice == 2 and held:
                    value, tensor = rng.choice(held)
                    rng.choice(boxes).send((value, tensor[:: rng.choice([1, 2, -1])]))
                elif choice == 3 and held:
                    held.pop(rng.randrange(len(held)))
                elif choice == 4 and held:
                    value, tensor = rng.choice(held)
                    if not (tensor.numpy() == value).all():
                        problems.append(f"{value} was overwritten")
                elif (received := rng.choice(boxes).receive()) is not None:
                    held.append(received)
            del held[40:]
    except BaseException as error:  # reported to the parent
        problems.append(repr(error))


def run_threads(boxes: list[Mailbox], seed: int) -> list[str]:
    problems: list[str] = []
    until = time.monotonic() + SECONDS
    threads = [threading.Thread(target=work, args=(seed + i, boxes, until, problems)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return problems


def run_process(boxes: list[Mailbox], seed: int) -> None:
    problems = run_threads(boxes, seed)
    if problems:
        print(problems, file=sys.stderr)
        raise SystemExit(1)


@pytest.mark.thorough
def test_eight_threads_in_two_processes_exchange_tensors(ctx, strategy) -> None:
    boxes = [Mailbox() for _ in range(3)]
    with running(ctx, run_process, boxes, 1000) as process:
        assert run_threads(boxes, 1) == []
    assert process.exitcode == 0
    for box in boxes:
        while (received := box.receive()) is not None:
            value, tensor = received
            assert (tensor.numpy() == value).all()
        box.close()


@pytest.mark.parametrize("threads", [THREADS])
def test_threads_release_one_block_simultaneously(strategy, threads) -> None:
    """Objects of one block are created and released in all threads; it is freed once, at the end."""
    before = st.stats()["blocks"]
    box = Mailbox()
    kept = [st.ones(1000)]

    def churn() -> None:
        for _ in range(2000):
            tensor = kept[0]
            view = tensor[1:]
            again = view.storage()
            del view
            box.send(tensor)
            received = box.receive()
            assert received is None or received.storage() is again
            del received, again, tensor

    run_together(*[churn] * threads)
    while (received := box.receive()) is not None:
        assert received.storage() is kept[0].storage()
        del received
    assert st.stats()["blocks"] == before + 1
    kept.clear()
    assert st.stats()["blocks"] == before
    box.close()


SIZE = 256 << 20
SOURCE = np.ones(SIZE, np.uint8)
LONG_WORK = {
    "fill": lambda tensor: tensor.fill_(1),
    "copy": lambda tensor: tensor.copy_(SOURCE),
    "asarray": lambda _: st.asarray(SOURCE),
}


@pytest.mark.parametrize("what", LONG_WORK)
def test_copies_and_fills_release_the_gil(what) -> None:
    """The calls release the GIL: a second thread makes progress."""
    tensor = st.empty(SIZE, dtype=np.uint8)
    ready, go, done = threading.Lock(), threading.Lock(), threading.Event()
    steps = 0

    def count() -> None:
        nonlocal steps
        ready.release()
        go.acquire()
        while not done.is_set():
            steps += 1
            time.sleep(0)  # releases the GIL, which no other thread acquires

    ready.acquire()
    go.acquire()
    thread = threading.Thread(target=count)
    thread.start()
    ready.acquire()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        go.release()
        end = time.monotonic() + 60
        while True:  # on a busy machine the other thread may not run during one
            LONG_WORK[what](tensor)
            meanwhile = steps
            if meanwhile or time.monotonic() > end:
                break
    finally:
        done.set()
        sys.setswitchinterval(interval)
        thread.join()
    assert meanwhile > 0
