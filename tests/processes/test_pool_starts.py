"""The pool: workers that cannot start end it with the reason; ends are noticed whatever logging does."""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
import threading

import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor.multiprocessing._lifetime import fork
from shmtensor.multiprocessing._pool import workers
from shmtensor.multiprocessing._pool.tasks import Tasks
from shmtensor.multiprocessing._pool.worker import StartFailure
from shmtensor.multiprocessing.pool import Pool
from tests.helpers.children import run_command, wait_until, write_program

WAIT = 60.0


def double(value):
    return value * 2


def end_in_initializer(how: str) -> None:
    if how == "raise":
        raise LookupError("no licence")
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exit":
        sys.exit()


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("raise", "initializer raised LookupError: no licence"),
        ("kill", "killed by SIGKILL"),
        ("exit", "initializer raised SystemExit"),
    ],
)
def test_initializers_that_fail_in_a_row_end_the_pool(start_method: str, how: str, reason: str) -> None:
    pool = mp.get_context(start_method).Pool(2, end_in_initializer, (how,))
    results = [pool.apply_async(double, (i,)) for i in range(3)]
    for result in results:
        text = f"no worker can run double.* take a task .the last one, process .*{reason}"
        with pytest.raises(mp.WorkerLost, match=text) as lost:
            result.get(WAIT)
    assert ("no licence" in str(lost.value.__cause__)) == (how == "raise")
    with pytest.raises(mp.WorkerLost, match="can run double"):
        pool.map_async(double, range(9)).get(WAIT)
    with pytest.raises(mp.WorkerLost):
        pool.imap(double, range(2)).next(WAIT)
    assert sum(worker.pid is not None for worker in pool._pool) <= 2
    pool.close()
    pool.join()


def test_message_after_the_end_is_waited_for_by_none() -> None:
    """Regression: `join` hung if a last worker reported its failed start after the pool was closed."""
    tasks, results = mp.SimpleQueue(), mp.SimpleQueue()
    made = Tasks(tasks, results, workers.Workers(tasks, results, Pool.Process), "fork")
    results.put(None)
    assert made.next_result() is None
    for message in (StartFailure("ValueError", "trace"), workers.NONE_STARTS):
        results.put(message)
        thread = threading.Thread(target=made.next_result, daemon=True)
        thread.start()
        thread.join(WAIT)
        assert not thread.is_alive()


def fail_at_first(starts: st.Tensor, failures: int) -> None:
    starts[0] += 1  # the pool has one worker at a time
    if starts[0] <= failures:
        raise LookupError("not yet")


def test_workers_are_replaced_after_fewer_failures() -> None:
    starts = st.zeros(1, "int64")
    with mp.Pool(1, fail_at_first, (starts, 2), maxtasksperchild=1) as pool:
        for failures in range(3):
            assert pool.apply_async(double, (2,)).get(WAIT) == 4
            assert starts[0] >= failures + 3
        starts[0] = 0  # two more failures, but not three one after the other
        for _ in range(3):
            assert pool.apply_async(double, (2,)).get(WAIT) == 4


def kill_third(starts: st.Tensor) -> None:
    starts[0] += 1
    if starts[0] > 1:
        os.kill(os.getpid(), signal.SIGKILL)


def test_pool_that_loses_its_only_worker_for_good_fails_the_waiting_tasks() -> None:
    starts = st.zeros(1, "int64")
    with mp.Pool(1, kill_third, (starts,)) as pool:
        assert pool.apply_async(double, (2,)).get(WAIT) == 4
        with pytest.raises(mp.WorkerLost, match="result of kill is lost"):
            pool.apply_async(os.kill, (pool._pool[0].pid, signal.SIGKILL)).get(WAIT)
        with pytest.raises(mp.WorkerLost, match="no worker can run double"):
            pool.apply_async(double, (2,)).get(WAIT)
        assert starts[0] == 4


def no_forks(monkeypatch, count: int) -> None:
    """Let the next starts of processes fail."""
    launch, left = fork.Popen._launch, [count]

    def raises(popen, process) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise BlockingIOError(errno.EAGAIN, "no processes are left")
        launch(popen, process)

    monkeypatch.setattr(fork.Popen, "_launch", raises)


def lose_worker(pool) -> None:
    with pytest.raises(mp.WorkerLost, match="result of kill is lost"):
        pool.apply_async(os.kill, (pool._pool[-1].pid, signal.SIGKILL)).get(WAIT)


def test_worker_that_cannot_be_started_at_once_is_started_later(monkeypatch, caplog) -> None:
    """Regression: the thread that starts workers ended, and all tasks waited indefinitely."""
    with mp.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(double, (2,)).get(WAIT) == 4
        no_forks(monkeypatch, 2)
        lose_worker(pool)
        assert pool.apply_async(double, (2,)).get(WAIT) == 4
        assert "PoolWorker" in pool._pool[0].name
        lose_worker(pool)
        assert pool.apply_async(double, (2,)).get(WAIT) == 4
    assert caplog.text.count("cannot be started: [Errno 11] no processes are left") == 2


def test_pool_without_a_worker_that_can_be_started_fails_its_tasks(monkeypatch) -> None:
    monkeypatch.setattr(workers, "_PAUSES", (0.01, 0.01))
    with mp.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(double, (2,)).get(WAIT) == 4
        no_forks(monkeypatch, 2)
        lose_worker(pool)
        reason = "could be started: BlockingIOError: .* no processes are left; the last one, .* SIGKILL"
        for _ in range(2):
            with pytest.raises(mp.WorkerLost, match=reason):
                pool.apply_async(double, (2,)).get(WAIT)
            wait_until(lambda: pool._pool[0].exitcode is None, what="the place of the worker to be taken")


def test_pool_goes_on_without_a_worker_that_cannot_be_started(monkeypatch) -> None:
    monkeypatch.setattr(workers, "_PAUSES", (0.01, 0.01))
    with mp.get_context("fork").Pool(2) as pool:
        assert pool.map_async(double, range(9), 1).get(WAIT) == [*range(0, 18, 2)]
        no_forks(monkeypatch, 2)
        pool._pool[1].kill()
        wait_until(lambda: [worker.exitcode for worker in pool._pool] == [None, 1], what="one worker")
        assert pool.map_async(double, range(9), 1).get(WAIT) == [*range(0, 18, 2)]
        pool._pool[0].kill()  # now both are replaced
        wait_until(lambda: [worker.is_alive() for worker in pool._pool] == [True] * 2, what="two workers")
        assert pool.map_async(double, range(9), 1).get(WAIT) == [*range(0, 18, 2)]


def test_first_worker_that_cannot_be_started_is_the_callers_error(monkeypatch) -> None:
    no_forks(monkeypatch, 1)
    with pytest.raises(BlockingIOError, match="no processes are left"):
        mp.get_context("fork").Pool(1)


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_pool_without_main_guard_fails_with_the_remedy(tmp_path, method: str) -> None:
    text = f"""
        import shmtensor.multiprocessing as mp
        pool = mp.get_context({method!r}).Pool(2)
        print("started", flush=True)
        print(pool.map(abs, range(3)))
    """
    done = run_command([sys.executable, str(write_program(tmp_path, text))])
    assert done.returncode == 1, done.stderr
    assert done.stdout == "started\n"
    (error,) = [line for line in done.stderr.splitlines() if "WorkerLost: no worker can run abs" in line]
    assert 'below `if __name__ == "__main__":`' in error


def raising_logs(monkeypatch, error: type[BaseException]) -> list[str]:
    seen: list[str] = []

    def emit(record: logging.LogRecord) -> None:
        seen.append(record.getMessage())
        raise error("in a handler")

    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", emit)
    monkeypatch.setattr(logging.getLogger("shmtensor"), "handlers", [handler])
    return seen


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_logging_that_raises_stops_no_thread(monkeypatch, capfd, error) -> None:
    with mp.Pool(1) as pool:
        seen = raising_logs(monkeypatch, error)
        with pytest.raises(mp.WorkerLost, match="killed by SIGKILL"):
            pool.apply_async(os.kill, (pool._pool[0].pid, signal.SIGKILL)).get(WAIT)
        assert pool.apply_async(double, (2,)).get(WAIT) == 4
        assert len(seen) == 1
    assert "in a handler" in capfd.readouterr().err


def fail_or_wait(rank: int) -> None:
    if rank == 0:
        raise ValueError("on purpose")
    signal.pause()


def test_logging_that_raises_leaves_no_worker_of_spawn(monkeypatch) -> None:
    raising_logs(monkeypatch, ValueError)
    context = mp.spawn(fail_or_wait, nprocs=3, join=False)
    with pytest.raises(mp.ProcessRaisedException, match="on purpose"):
        context.join()
    assert not any(process.is_alive() for process in context.processes)


class ExitsOnLoad:
    def __reduce__(self):
        return sys.exit, (3,)


def make_or_raise(rank: int) -> ExitsOnLoad:
    return ExitsOnLoad()


def test_results_of_spawn_that_exit_when_loaded_are_type_errors() -> None:
    with pytest.raises(TypeError, match="rank 0 returned a value that cannot be sent: SystemExit: 3"):
        mp.spawn(make_or_raise, nprocs=2, join=False).results()
