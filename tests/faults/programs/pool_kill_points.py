"""A pool whose workers are killed at a named point of the queues of tasks and results.

`test_pool_kills.py` runs it with the build that has the points. Arguments: FAULT TIMES.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from pathlib import Path

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import wait_until
from tests.helpers.live_resources import live_tickets
from tests.helpers.victims import SECONDS, make_tokens

TASKS = 60
WAIT = 30.0


def order(fault: str) -> None:
    os.environ["SHMTENSOR_FAULT"] = fault


def work(i: int, content: object, runs: st.Tensor) -> object:
    """Return tensors for some tasks, and a number for others: some results need a ticket, others none."""
    runs[i] += 1
    return [st.full(4, i), content] if i % 3 else i


def is_right(i: int, result: object) -> bool:
    return result == i if i % 3 == 0 else isinstance(result, list) and result[0].tolist() == [i] * 4


def run(fault: str) -> int:
    """Return how many tasks were lost; each other one has its result, and none is run twice."""
    runs = st.zeros(TASKS, "int64")
    lost = 0
    with mp.get_context("fork").Pool(2, order, (fault,)) as pool:
        results = [pool.apply_async(work, (i, st.ones(3) if i % 2 else i, runs)) for i in range(TASKS)]
        for i, result in enumerate(results):
            try:
                assert is_right(i, result.get(WAIT)), i
                assert runs[i] == 1, i
            except mp.WorkerLost:
                lost += 1
                assert runs[i] <= 1, i
    return lost


def main(fault: str, times: int) -> None:
    tokens = Path(make_tokens(times))
    kept = st.ones(1)
    before = st.stats()["blocks"]
    deadline = time.monotonic() + SECONDS
    while kills := len(list(tokens.iterdir())):
        lost = run(fault)
        assert lost <= kills - len(list(tokens.iterdir())), "a task of a worker that lives was lost"
        assert time.monotonic() < deadline, f"the pool passes {fault} too seldom"
    assert run("") == 0
    wait_until(lambda: st.stats()["processes"] == 1, what="the dead to be noticed")
    gc.collect()
    wait_until(lambda: (st.stats()["blocks"], live_tickets()) == (before, 0), what="nothing to be left")
    del kept
    print("fine")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
