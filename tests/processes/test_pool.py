"""The pool: tasks of workers that die fail, and the pool continues."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress

import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import run_python, wait_until

WAIT = 60.0


def double(value):
    return value * 2


def end_by(how: str) -> int:
    """End this process; return for another `how`."""
    if how == "signal":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exit":
        os._exit(7)
    return os.getpid()


@pytest.mark.parametrize(("how", "reason"), [("signal", "killed by SIGKILL"), ("exit", "exit status 7")])
def test_task_of_a_lost_worker_fails(start_method: str, how: str, reason: str) -> None:
    with mp.get_context(start_method).Pool(2) as pool:
        assert pool.apply_async(end_by, ("",)).get(WAIT) > 0
        pids = {worker.pid for worker in pool._pool}
        with pytest.raises(mp.WorkerLost, match=rf"result of end_by is lost.*{reason}") as lost:
            pool.apply_async(end_by, (how,)).get(WAIT)
        assert lost.value.pid in pids
        assert lost.value.exitcode == (7 if how == "exit" else -signal.SIGKILL)
        assert pool.map_async(double, range(100)).get(WAIT) == [2 * i for i in range(100)]


def test_child_of_the_program_ends_no_worker_when_it_exits() -> None:
    """Regression: it terminated the workers of its parent's pool, as the standard library's do."""
    done = run_python("""
        import multiprocessing, os, sys
        import shmtensor.multiprocessing as mp
        from time import sleep

        if __name__ == "__main__":
            with mp.get_context("fork").Pool(1) as pool:
                result = pool.apply_async(sleep, (0.3,))
                if os.fork() == 0:
                    assert multiprocessing.active_children() == []
                    sys.exit(0)
                assert os.wait()[1] == 0
                assert len(multiprocessing.active_children()) == 1
                assert result.get(30) is None
    """)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "Error" not in done.stderr


def end_when_told(words: st.Tensor) -> None:
    words[0] = 1
    while not words[1]:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


def exhaust_memory() -> list[st.Tensor]:
    """Allocate all that this process has reserved, and let it reserve no more."""
    st.set_limit(1)
    tensors = []
    for size in (1 << 20, 1 << 12, 1):
        with suppress(st.OutOfSharedMemory):
            while True:
                tensors.append(st.empty(size, dtype="uint8"))
    return tensors


def test_task_of_a_lost_worker_fails_if_no_memory_is_left() -> None:
    with mp.get_context("fork").Pool(1) as pool:
        words = st.zeros(2, dtype="int64")
        lost = pool.apply_async(end_when_told, (words,))
        wait_until(lambda: bool(words[0] == 1), what="the task")
        try:
            tensors = exhaust_memory()
            words[1] = 1
            with pytest.raises(mp.WorkerLost):
                lost.get(WAIT)
            assert len(tensors) > 0
        finally:
            st.set_limit(None)
        del tensors
        assert pool.apply_async(double, (2,)).get(WAIT) == 4


def test_map_fails_and_imap_continues() -> None:
    ways = ["", "", "exit", "", ""]
    with mp.Pool(2) as pool:
        with pytest.raises(mp.WorkerLost, match="end_by"):
            pool.map_async(end_by, ways, chunksize=1).get(WAIT)
        results = pool.imap(end_by, ways)
        for how in ways:
            if how:
                with pytest.raises(mp.WorkerLost):
                    results.next(WAIT)
            else:
                assert results.next(WAIT) > 0
        with pytest.raises(StopIteration):
            results.next(WAIT)


def test_map_while_no_worker_runs(monkeypatch) -> None:
    """Regression: all workers had ended, and the next ones had not been started: ZeroDivisionError."""
    with mp.Pool(2) as pool, monkeypatch.context() as patch:
        patch.setattr(pool, "_pool", [])  # the thread that replaces workers has the list
        for count in (0, 1, 8, 9):
            expected = [2 * i for i in range(count)]
            assert pool.map_async(double, range(count)).get(WAIT) == expected
            assert pool.starmap_async(double, iter([(i,) for i in range(count)])).get(WAIT) == expected


def test_death_of_idle_workers_fails_no_task() -> None:
    with mp.Pool(2) as pool:
        assert pool.map_async(double, range(10), chunksize=1).get(WAIT) == [2 * i for i in range(10)]
        for _ in range(3):
            old = {worker.pid for worker in pool._pool}
            for pid in old:
                os.kill(pid, signal.SIGKILL)
            wait_until(
                lambda old=old: len(pool._pool) == 2 and not old & {worker.pid for worker in pool._pool},
                what="new workers",
            )
            assert pool.map_async(double, range(10), chunksize=1).get(WAIT) == [2 * i for i in range(10)]


def work(i: int, tensor: st.Tensor, runs: st.Tensor) -> st.Tensor:
    runs[i] += 1
    time.sleep(0.001)
    return st.full(10, float(tensor[0]) + i)


@pytest.mark.thorough
@pytest.mark.timeout(180)
def test_workers_killed_at_random() -> None:
    """Each task has one result or fails, and is run at most once."""
    random.seed(7)
    runs = st.zeros(600, "int64")
    tensor = st.ones(1000)
    with mp.Pool(3) as pool:
        results = [pool.apply_async(work, (i, tensor, runs)) for i in range(600)]
        while not all(result.ready() for result in results):
            with suppress(ProcessLookupError, IndexError):
                random.choice(list(pool._pool)).kill()
            time.sleep(random.uniform(0.001, 0.05))
        lost = 0
        for i, result in enumerate(results):
            try:
                assert result.get(0).tolist() == [1.0 + i] * 10
                assert runs[i] == 1
            except mp.WorkerLost:
                lost += 1
                assert runs[i] <= 1
        assert 0 < lost < 600
        assert pool.map_async(double, range(10)).get(WAIT) == [2 * i for i in range(10)]
