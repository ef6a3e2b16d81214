"""Tasks of a pool that run again, report their progress, and are taken from an iterable as needed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor.futures import ProcessPoolExecutor
from shmtensor.multiprocessing._pool.buffered import buffered
from tests.helpers.children import wait_until

WAIT = 60.0


def die_until(attempts: st.Tensor, index: int, last: int) -> int:
    """Kill the worker in all attempts but one."""
    attempts[index] += 1
    if attempts[index] < last:
        os.kill(os.getpid(), signal.SIGKILL)
    return int(attempts[index])


def test_task_of_a_killed_worker_runs_again(start_method: str) -> None:
    attempts = st.zeros(3)
    with mp.get_context(start_method).Pool(1) as pool:
        tasks = [pool.apply_async(die_until, (attempts, i, 3), retries=2) for i in range(2)]
        once = pool.apply_async(die_until, (attempts, 2, 3), retries=1)
        assert [task.get(WAIT) for task in tasks] == [3, 3]
        with pytest.raises(mp.WorkerLost, match="die_until"):
            once.get(WAIT)
    assert attempts.tolist() == [3, 3, 2]


def test_items_run_again() -> None:
    attempts = st.zeros(6)
    items = [(attempts, i, 1 + i % 2) for i in range(6)]
    with mp.Pool(2) as pool:
        assert pool.starmap(die_until, items, retries=1) == [1, 2] * 3


def stop(begun: st.Tensor) -> None:
    begun[0] += 1
    time.sleep(3600)


def test_only_a_lost_worker_is_a_reason() -> None:
    begun = st.zeros(1)
    with mp.Pool(1) as pool:
        with pytest.raises(mp.TaskTimeout):
            pool.apply(stop, (begun,), timeout=0.05, retries=3)
        with pytest.raises(ZeroDivisionError):
            pool.apply(divmod, (1, 0), retries=3)
    assert begun.tolist() == [1]


def test_task_that_runs_again_can_be_cancelled() -> None:
    begun = st.zeros(1)
    with mp.Pool(1) as pool:
        result = pool.apply_async(stop, (begun,), retries=1)
        wait_until(lambda: begun[0] == 1)
        (worker,) = pool._pool
        os.kill(worker.pid, signal.SIGKILL)
        wait_until(lambda: begun[0] == 2)
        assert result.cancel()
        with pytest.raises(CancelledError):
            result.get(WAIT)
        assert pool.apply(abs, (-1,)) == 1


@pytest.mark.parametrize("bad", [-1, 1.5, "2"])
def test_number_of_retries_is_checked(bad: object) -> None:
    with mp.Pool(1) as pool, pytest.raises((TypeError, ValueError)):
        pool.apply_async(abs, (1,), retries=bad)
    with mp.Pool(1) as pool, pytest.raises(TypeError, match="retry"):
        pool.apply_async(abs, (1,), retry=1)


@pytest.mark.parametrize("method", ["map", "imap", "imap_unordered"])
def test_progress_is_reported(method: str) -> None:
    seen: list[tuple[int, int | None]] = []
    with mp.Pool(2) as pool:
        call = getattr(pool, method)
        assert sorted(call(abs, range(4), progress=lambda *numbers: seen.append(numbers))) == [0, 1, 2, 3]
        assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
        seen.clear()
        chunks = call(abs, iter(range(4)), 2, progress=lambda *numbers: seen.append(numbers))
        assert sorted(chunks) == [0, 1, 2, 3]
    total = 4 if method == "map" else None
    assert seen == [(2, total), (4, total)]


def test_progress_of_a_long_map_comes_in_a_hundred_parts() -> None:
    seen: list[int] = []
    with mp.Pool(2) as pool:
        assert pool.map(abs, range(2000), progress=lambda done, _: seen.append(done)) == list(range(2000))
    assert seen == list(range(20, 2001, 20))


def test_progress_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    with mp.Pool(2) as pool:
        pool.map(abs, range(1000), chunksize=100, progress=True)
    assert capfd.readouterr().err.startswith("abs: 1,000 of 1,000 calls, ")


def test_progress_of_an_executor() -> None:
    seen: list[tuple[int, int | None]] = []
    with ProcessPoolExecutor(2) as executor:
        numbers = executor.map(pow, range(5), iter([2] * 9), progress=lambda *numbers: seen.append(numbers))
        assert list(numbers) == [0, 1, 4, 9, 16]
    assert seen == [(done, None) for done in range(1, 6)]


def test_error_of_a_report_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[BaseException | None] = []
    monkeypatch.setattr(threading, "excepthook", lambda given: reported.append(given.exc_value))
    with mp.Pool(1) as pool:
        assert pool.map(abs, range(3), progress=lambda done, _: 1 // (done - 2)) == [0, 1, 2]
    assert [type(error) for error in reported] == [ZeroDivisionError]


class Items:
    """Counts the items that were taken."""

    def __init__(self) -> None:
        self.taken = 0

    def __iter__(self) -> Iterator[int]:
        for number in range(1000):
            self.taken += 1
            yield number


@pytest.mark.parametrize("method", ["imap", "imap_unordered"])
@pytest.mark.parametrize("chunksize", [1, 3])
def test_buffer_bounds_how_many_items_are_taken(method: str, chunksize: int) -> None:
    items = Items()
    with mp.Pool(2) as pool:
        results = getattr(pool, method)(abs, items, chunksize, buffersize=6)
        for done in range(50):
            next(results)
            assert done < items.taken <= done + 1 + 6 + chunksize
        assert pool.apply_async(abs, (-5,), timeout=WAIT) is not None
        left = sorted(results)
        assert left[-1] == 999
        assert len(left) == 950


def test_timeout_and_errors_keep_the_buffer_right() -> None:
    with mp.Pool(1) as pool:
        results = pool.imap(time.sleep, [0.2, -1, 0, -1, 0], buffersize=1)
        for _ in range(3):
            with pytest.raises(mp.TimeoutError):
                results.next(0.001)
        seen = []
        for _ in range(5):
            try:
                seen.append(results.next(WAIT))
            except ValueError:
                seen.append(ValueError)
        assert seen == [None, ValueError, None, ValueError, None]
        with pytest.raises(StopIteration):
            next(results)


def test_abandoned_iterator_holds_up_no_other_call() -> None:
    with mp.Pool(1) as pool:
        results = pool.imap(abs, Items(), buffersize=1)
        assert next(results) == 0
        del results
        assert pool.apply_async(abs, (-3,)).get(WAIT) == 3


@pytest.mark.parametrize("bad", [0, -1])
def test_size_of_the_buffer_is_checked(bad: int) -> None:
    with mp.Pool(1) as pool, pytest.raises(ValueError, match=r"^buffersize must be at least 1"):
        pool.imap(abs, [1], buffersize=bad)


def test_sizes_must_be_integers() -> None:
    with mp.Pool(1) as pool:
        with pytest.raises(TypeError, match=r"buffersize must be an integer, not 1\.5"):
            pool.imap(abs, [1], buffersize=1.5)
        for bad, error in ((1.5, TypeError), (0, ValueError), (-1, ValueError)):
            for method in (pool.map_async, pool.starmap_async):
                with pytest.raises(error, match=rf"^chunksize must be .*, not {bad}$"):
                    method(abs, [(1,), (2,)], bad)
        assert pool.map(abs, [], 0) == []
        assert pool.map(abs, [-1, -2], np.int64(1)) == [1, 2]


def test_interrupt_frees_no_place_of_buffersize() -> None:
    class Results:
        def __init__(self, items) -> None:
            self.items, self.is_interrupted = items, True

        def __next__(self):
            if self.is_interrupted:
                self.is_interrupted = False
                raise KeyboardInterrupt
            return next(self.items)

    results = buffered(Results, range(3), 1, 1)
    with pytest.raises(KeyboardInterrupt):
        next(results)
    assert next(results) == 0
    free = results._room._free
    assert free.acquire(blocking=False)
    assert not free.acquire(blocking=False)
