"""The pool takes a few large tasks at a time, whatever happens to its workers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

import shmtensor.multiprocessing as mp
from tests.helpers.children import wait_until

WAIT = 60.0
SIZE = 2_000_000


def items(made: list[int], count: int = 1000) -> Iterator[npt.NDArray[np.uint8]]:
    for number in range(count):
        made.append(number)
        yield np.full(SIZE, number % 100, "u1")


def first(array: npt.NDArray[np.uint8]) -> int:
    if array[0] == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return int(array[0])


def keep(given: object) -> None:
    global pipe
    pipe = given


def take(array: npt.NDArray[np.uint8]) -> int:
    pipe.recv()
    return int(array[0])


def test_end_while_a_task_waits_for_room() -> None:
    reader, writer = mp.Pipe(duplex=False)
    made: list[int] = []
    with mp.get_context("fork").Pool(1, keep, (reader,)) as pool:
        results = pool.imap(take, items(made))
        writer.send(None)
        assert results.next(WAIT) == 0
        wait_until(lambda: hasattr(pool._task_handler, "_room"))
        assert len(made) <= 5
    pool.join()
    assert len(made) <= 5


def test_lost_workers_make_room() -> None:
    count = 10
    with mp.get_context("fork").Pool(1) as pool:
        results = pool.imap(first, items([], count))
        for number in range(count):
            if number == 3:
                with pytest.raises(mp.WorkerLost):
                    results.next(WAIT)
            else:
                assert results.next(WAIT) == number


def test_failed_tasks_make_room() -> None:
    with mp.get_context("fork").Pool(2) as pool:
        unpicklable = (character for character in "ab")
        tasks = [(np.zeros(SIZE, "u1"), unpicklable)[: 1 + number % 2] for number in range(20)]
        results = [pool.apply_async(len, (task,)) for task in tasks]
        for number, result in enumerate(results):
            if number % 2:
                with pytest.raises(TypeError):
                    result.get(WAIT)
            else:
                assert result.get(WAIT) == 1
