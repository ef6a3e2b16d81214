"""A large argument that is the same in many tasks is copied once, and each task has it as its own."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import shmtensor.multiprocessing as mp
from shmtensor.futures import ProcessPoolExecutor
from tests.helpers.children import output, run_python
from tests.helpers.live_resources import assert_no_leaks

SECONDS = 60
SIZE = 1_000_000  # numbers


def get(array: np.ndarray, index: int) -> float:
    return float(array[index])


def add(array: np.ndarray, number: float) -> float:
    """Write into the argument, as a task may."""
    array += number
    return float(array[0])


def add_all(given: dict[str, list[np.ndarray]], number: float) -> float:
    return add(given["arrays"][0], number)


class Model:
    def __init__(self, weights: np.ndarray) -> None:
        self.weights = weights

    def get(self, index: int) -> float:
        return float(self.weights[index])


# 24 tasks with an array of 8 MB, of which 40 MB of shared memory have room for a few.
PROGRAM = """
import sys
from functools import partial
import numpy as np, shmtensor.multiprocessing as mp
from tests.processes.test_pool_arguments import SIZE, Model, get

if __name__ == "__main__":
    weights, indexes = np.arange(SIZE, dtype=float), range(24)
    with mp.get_context(sys.argv[1]).Pool(2) as pool:
        calls = {
            "partial": lambda: pool.imap(partial(get, weights), indexes),
            "method": lambda: pool.imap_unordered(Model(weights).get, indexes),
            "tuple": lambda: iter(pool.starmap(get, [(weights, index) for index in indexes], chunksize=1)),
            "apply": lambda: (r.get(60) for r in [pool.apply_async(get, (weights, i)) for i in indexes]),
        }
        print(sum(calls[sys.argv[2]]()))
"""


@pytest.mark.parametrize("call", ["partial", "method", "tuple", "apply"])
def test_same_argument_is_copied_once(call: str, start_method: str) -> None:
    memory = {"SHMTENSOR_MAX_BYTES": "40000000"}
    result = output(run_python(PROGRAM, env=memory, arguments=(start_method, call)))
    assert float(result) == sum(range(24))


def test_tasks_have_the_argument_as_their_own(start_method: str) -> None:
    with assert_no_leaks():
        array = np.ones(SIZE)
        with mp.get_context(start_method).Pool(2) as pool:
            assert pool.map(partial(add, array), [1.0] * 8, chunksize=1) == [2.0] * 8
            assert pool.map(partial(add_all, {"arrays": [array, array]}), [2.0] * 4, chunksize=1) == [3.0] * 4
            assert array.sum() == SIZE
            array += 1  # not what the tasks have seen
            results = [pool.apply_async(add, (array, 1.0)) for _ in range(4)]
            assert [result.get(SECONDS) for result in results] == [3.0] * 4
            pool.close()
            pool.join()
        del array, results, pool


def test_generator_may_use_one_buffer_again() -> None:
    def frames() -> object:
        buffer = np.empty(SIZE)
        for number in range(12):
            buffer[:] = number
            yield buffer

    with mp.Pool(2) as pool:
        assert list(pool.imap(partial(get, index=-1), frames())) == list(map(float, range(12)))


def test_argument_that_is_read_only() -> None:
    array = np.ones(SIZE)
    array.flags.writeable = False
    with mp.Pool(2) as pool:
        assert pool.map(partial(get, array), range(8), chunksize=1) == [1.0] * 8
        assert pool.map(partial(add, array), [1.0] * 4, chunksize=1) == [2.0] * 4  # of their own


def test_calls_of_an_executor() -> None:
    with assert_no_leaks():
        array = np.arange(SIZE, dtype=float)
        with ProcessPoolExecutor(2) as executor:
            futures = [executor.submit(get, array, index) for index in range(20)]
            assert sum(future.result(SECONDS) for future in futures) == sum(range(20))
        del array, futures, executor


def test_argument_is_sent_on_to_a_pool_in_a_task() -> None:
    with mp.Pool(1) as pool:
        array = np.arange(SIZE, dtype=float)
        for _ in range(3):
            assert pool.apply(sum_in_pool, (array,)) == array[:4].sum()


def sum_in_pool(array: np.ndarray) -> float:
    with mp.Pool(1) as pool:
        return sum(pool.map(partial(get, array), range(4), chunksize=1))
