"""A forked child neither uses nor affects the GPU memory that its parent shares."""

from __future__ import annotations

import gc
import os
import signal
import threading
from typing import Any

import numpy as np

import shmtensor as st
from shmtensor._cuda import events as cuda_events
from tests.cuda import device, workers
from tests.cuda.harness import case
from tests.cuda.segment import Part, Segment

VALUES = np.arange(1000.0)


def in_child(body: Any) -> Any:
    """Fork; the child runs `body` when the function returned is called, which returns its result."""
    start, go = os.pipe()
    result, results = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        os.read(start, 1)
        try:
            body()
            os.write(results, b"ok")
        except BaseException as error:
            os.write(results, repr(error).encode()[:500])
        os._exit(0)
    os.close(results)

    def run() -> bytes:
        os.write(go, b"x")
        answer = os.read(result, 500)
        os.waitpid(pid, 0)
        return answer

    return run


@case
def test_gc_in_child_keeps_parents_chunks() -> None:
    """Regression: it released chunks of the parent's freed blocks, which were in use again."""
    host = st.zeros(4)  # the child holds a tensor and remains in the session
    first = st.asarray(Part(Segment(2), 0, VALUES))
    collect = in_child(st.cuda.ipc_collect)
    del first
    gc.collect()
    device.wait_until(lambda: Segment.alive == 0, "the first owner")
    second = st.asarray(Part(Segment(2), 0, VALUES + 1))  # the chunk's number is used again
    assert collect() == b"ok"
    pair = workers.Pair(workers.answer)
    pair.put(second)
    assert pair.get()[0][0] == (VALUES + 1).tolist()
    pair.end()
    assert host.tolist() == [0] * 4


@case
def test_child_forked_during_export_does_not_block() -> None:
    """Regression: a thread that the child does not have held the lock of the table."""
    array = device.Array(VALUES)
    done = threading.Event()

    def share() -> None:
        while not done.is_set():
            kept = [st.asarray(Part(segment, 0, VALUES)) for segment in (Segment(1), Segment(1))]
            del kept

    kept = st.asarray(array)
    thread = threading.Thread(target=share)
    thread.start()
    try:
        for _ in range(20):
            assert in_child(st.cuda.ipc_collect)() == b"ok"
    finally:
        done.set()
        thread.join(60)
    assert kept.tolist() == VALUES.tolist()


@case
def test_child_forked_during_event_creation_does_not_block() -> None:
    """Regression, as above, for a lock of Python."""
    host = st.zeros(4)
    st.zeros(4, device="cuda")
    with cuda_events._lock():
        collect = in_child(st.cuda.ipc_collect)
    assert collect() == b"ok"
    assert host.tolist() == [0] * 4
