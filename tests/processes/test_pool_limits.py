"""Limits and cancellation: the worker of one task is killed, no other task notices."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import CancelledError

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor.multiprocessing._pool.running import Running
from shmtensor.multiprocessing._pool.workers import Workers
from tests.helpers.children import is_running, wait_until

WAIT = 60.0
LONG = 3600.0


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def sleep_or_tell(seconds: float, text: str) -> str:
    time.sleep(seconds)
    return text


def raise_(error: Exception) -> None:
    raise error


def begin(started: st.Tensor, number: int) -> int:
    started[number] = os.getpid()
    time.sleep(LONG)
    return number


def take(nbytes: int) -> int:
    array = np.ones(nbytes, "u1")
    time.sleep(LONG if nbytes > 10_000_000 else 0)
    return array.nbytes


def test_task_above_its_time_fails_alone(start_method: str) -> None:
    with mp.get_context(start_method).Pool(2) as pool:
        others = [pool.apply_async(sleep, (0.001,)) for _ in range(10)]
        before = time.monotonic()
        with pytest.raises(mp.TaskTimeout, match=r"^sleep ran longer than 0\.2 s; its worker") as timeout:
            pool.apply(sleep, (LONG,), timeout=0.2)
        assert time.monotonic() - before >= 0.2
        assert (timeout.value.task, timeout.value.timeout) == ("sleep", 0.2)
        wait_until(lambda: not is_running(timeout.value.pid))
        assert [result.get(WAIT) for result in others] == [0.001] * 10
        assert pool.apply(sleep, (0,), timeout=WAIT) == 0


def test_time_before_the_call_does_not_count() -> None:
    with mp.Pool(1) as pool:
        first = pool.apply_async(sleep, (0.5,))
        assert pool.apply_async(sleep, (0.0,), timeout=0.4).get(WAIT) == 0.0
        assert first.get(WAIT) == 0.5


def test_task_above_its_memory_fails_alone() -> None:
    with mp.Pool(1) as pool:
        assert pool.apply(take, (1_000_000,), max_bytes=50_000_000) == 1_000_000
        text = r"^take took more than 50,000,000 bytes of memory; its worker"
        with pytest.raises(mp.TaskMemory, match=text) as memory:
            pool.apply(take, (200_000_000,), max_bytes=50_000_000)
        assert (memory.value.task, memory.value.max_bytes) == ("take", 50_000_000)
        assert pool.apply(take, (1_000_000,), max_bytes=50_000_000) == 1_000_000


@pytest.mark.parametrize("method", ["imap", "imap_unordered"])
def test_items_of_an_iterator_fail_alone(method: str) -> None:
    with mp.Pool(2) as pool:
        results = getattr(pool, method)(sleep, [0.0, LONG, 0.0, LONG, 0.0], timeout=0.1)
        counts: Counter[object] = Counter()
        for _ in range(5):
            try:
                counts[results.next(WAIT)] += 1
            except mp.TaskTimeout as error:
                counts[type(error)] += 1
        assert counts == {0.0: 3, mp.TaskTimeout: 2}


def test_maps_fail_with_their_item() -> None:
    """An item is a task: many of which each takes less than the limit may take more together."""
    with mp.Pool(1) as pool:
        assert pool.map(sleep, [0.1] * 5, timeout=0.4) == [0.1] * 5
        with pytest.raises(mp.TaskTimeout):
            pool.map(sleep, [0.0, LONG], timeout=0.1)
        with pytest.raises(mp.TaskTimeout):
            pool.map(sleep, [0.3] * 5, chunksize=5, timeout=0.5)
        with pytest.raises(mp.TaskTimeout, match="sleep_or_tell"):
            pool.starmap(sleep_or_tell, [(0.0, "a"), (LONG, "b")], timeout=0.1)
        assert pool.starmap_async(sleep_or_tell, [(0.0, "a")], timeout=WAIT).get(WAIT) == ["a"]
        assert pool.map_async(sleep, [0.0], max_bytes=1 << 30).get(WAIT) == [0.0]


def test_limits_hold_after_a_message_could_not_be_put(monkeypatch) -> None:
    """Regression: the error ended the thread that watches, so later tasks had no limit."""
    stop, failures = Workers.stop, [st.OutOfSharedMemory("no memory")]

    def stop_or_fail(workers, rank, position, message):
        return stop(workers, rank, position, lambda pid: raise_(failures.pop()) if failures else message(pid))

    monkeypatch.setattr(Workers, "stop", stop_or_fail)
    with mp.Pool(1) as pool:
        with pytest.raises(mp.WorkerLost):
            pool.apply_async(sleep, (LONG,), timeout=0.1).get(WAIT)
        with pytest.raises(mp.TaskTimeout):
            pool.apply_async(sleep, (LONG,), timeout=0.1).get(20)


@pytest.mark.parametrize("limit", [{"timeout": 0}, {"timeout": float("nan")}, {"max_bytes": -1}])
def test_limits_that_no_task_can_keep_are_refused(limit) -> None:
    with mp.Pool(1) as pool, pytest.raises(ValueError, match="must be above 0"):
        pool.apply(sleep, (0.0,), **limit)


def test_limits_are_numbers() -> None:
    with mp.Pool(1) as pool, pytest.raises(TypeError, match="timeout must be a number, not '1'"):
        pool.apply(sleep, (0.0,), timeout="1")


def run_sleep(pid: st.Tensor) -> None:
    with subprocess.Popen(["sleep", str(LONG)]) as program:
        pid[0] = program.pid


@pytest.mark.parametrize("how", ["timeout", "cancel"])
def test_programs_of_a_stopped_task_end_with_it(how: str) -> None:
    """Regression: only processes of multiprocessing did."""
    pid = st.zeros(1, "int64")
    # A forked worker that replaces it might inherit a pipe of `subprocess`.
    with mp.get_context("spawn").Pool(1) as pool:
        if how == "timeout":
            with pytest.raises(mp.TaskTimeout):
                pool.apply(run_sleep, (pid,), timeout=1)
        else:
            result = pool.apply_async(run_sleep, (pid,))
            wait_until(lambda: pid[0])
            assert result.cancel()
        assert pid[0]
        wait_until(lambda: not is_running(int(pid[0])))


def test_cancelled_tasks_do_not_run(start_method: str) -> None:
    started = st.zeros(3, "int64")
    with mp.get_context(start_method).Pool(1) as pool:
        running, waiting = (pool.apply_async(begin, (started, number)) for number in range(2))
        last = pool.apply_async(sleep, (0.0,))
        wait_until(lambda: started[0])
        assert waiting.cancel()
        assert running.cancel()
        assert last.get(WAIT) == 0.0
        assert not last.cancel()
        assert not last.cancelled()
        for result in (running, waiting):
            with pytest.raises(CancelledError):
                result.get(WAIT)
            assert result.cancelled()
            assert result.cancel(), "again"
        assert not is_running(int(started[0]))
        assert not started[1]


def test_task_is_cancelled_before_it_is_put() -> None:
    """It waits for the items of a generator, which takes its time."""
    may_go_on = threading.Event()
    started = st.zeros(1, "int64")

    def items():
        yield 0.0
        may_go_on.wait(WAIT)

    with mp.Pool(1) as pool:
        before = pool.imap(sleep, items())
        result = pool.apply_async(begin, (started, 0))
        assert before.next(WAIT) == 0.0
        assert result.cancel()
        assert result.cancel()
        may_go_on.set()
        assert pool.apply(sleep, (0.0,)) == 0.0
        assert result.cancelled()
        assert not started[0]


class Unpicklable:
    """Raises when it is pickled, after another thread has begun to cancel its task."""

    def __init__(self) -> None:
        self.pickled, self.cancelled = threading.Event(), threading.Event()

    def __reduce__(self):
        self.pickled.set()
        self.cancelled.wait(WAIT)
        raise ValueError("it cannot be pickled")


def test_task_in_place_of_one_that_cannot_be_put_is_not_cancelled(monkeypatch) -> None:
    """Regression: it has the position of that one, which was cancelled at the same time."""
    argument, cancel = Unpicklable(), Running.cancel

    def cancel_late(running: Running, position: int) -> None:
        argument.cancelled.set()
        time.sleep(0.3)
        cancel(running, position)

    monkeypatch.setattr(Running, "cancel", cancel_late)
    with mp.Pool(1) as pool:
        before = pool.apply_async(sleep, (0.6,))
        bad = pool.apply_async(sleep, (argument,))
        after = pool.apply_async(sleep, (0.0,))
        assert argument.pickled.wait(WAIT)
        bad.cancel()
        assert after.get(WAIT) == 0.0
        assert before.get(WAIT) == 0.6
        with pytest.raises((ValueError, CancelledError)):
            bad.get(WAIT)


def test_terminated_pool_has_no_thread_left() -> None:
    """Regression: the thread of the limits waited for results that no thread received any more."""
    started, release = st.zeros(1, "int64"), threading.Event()
    with mp.Pool(1) as pool:
        for _ in range(15):  # results that are there when the pool is terminated
            pool.apply_async(sleep, (0.0,), callback=lambda _: release.wait(WAIT))
        pool.apply_async(begin, (started, 0), timeout=LONG)
        wait_until(lambda: started[0])
        threading.Timer(0.2, release.set).start()
    pool.join()
    wait_until(lambda: "shmtensor-limits" not in [thread.name for thread in threading.enumerate()])


def test_pool_is_freed_without_the_garbage_collector() -> None:
    """Regression: its queue referred to its limits, and they to the queue."""
    before = st.stats()["blocks"]
    gc.disable()
    try:
        pool = mp.Pool(1)
        assert pool.apply(sleep, (0.0,), timeout=WAIT) == 0.0
        pool.terminate()
        pool.join()
        del pool
        wait_until(lambda: st.stats()["blocks"] == before)
    finally:
        gc.enable()


def act(seconds: float, *, ends: bool) -> float:
    time.sleep(seconds)
    if ends:
        os._exit(1)
    return seconds


@pytest.mark.parametrize(
    "tasks", [300, pytest.param(10_000, marks=[pytest.mark.thorough, pytest.mark.nightly])]
)
def test_each_task_has_exactly_one_answer(tasks: int) -> None:
    """Tasks time out, are cancelled at random instants, and end their workers; all others return."""
    choose = random.Random(tasks)
    counts: Counter[str] = Counter()
    answers: Counter[int] = Counter()
    with mp.Pool(2) as pool:
        for first in range(0, tasks, 100):
            results = []
            for number in range(first, first + 100):
                kind = choose.choice(("plain", "plain", "short", "long", "cancelled", "ends"))
                seconds = LONG if kind == "long" else choose.random() * 0.002
                timeout = {"short": 0.001, "long": 0.01}.get(kind)
                result = pool.apply_async(
                    act, (seconds,), {"ends": kind == "ends"}, timeout=timeout,
                    callback=lambda _, number=number: answers.update([number]),
                    error_callback=lambda _, number=number: answers.update([number]),
                )  # fmt: skip
                results.append((kind, seconds, result))
            said = {}
            for number, (kind, _, result) in enumerate(results):
                if kind == "cancelled":
                    time.sleep(choose.random() * 0.003)
                    said[number] = result.cancel()
            for number, (kind, seconds, result) in enumerate(results):
                try:
                    assert result.get(WAIT) == seconds
                    counts[f"{kind} returned"] += 1
                    assert kind in {"plain", "short", "cancelled"}
                    assert not said.get(number, False)
                except mp.TaskTimeout:
                    assert kind in {"short", "long"}
                    counts[f"{kind} stopped"] += 1
                except CancelledError:
                    assert said[number]
                    counts["cancelled"] += 1
                except mp.WorkerLost:
                    assert kind == "ends"
    assert answers == dict.fromkeys(range(tasks), 1)
    assert {"plain returned", "long stopped", "cancelled"} <= set(counts), counts
