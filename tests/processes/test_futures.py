"""The executor: what the standard library's does, and what its does not."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing as std
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent import futures
from functools import partial

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor.futures import ProcessPoolExecutor
from tests.helpers.children import is_running, output, run_python, wait_until

WAIT = 60.0
LONG = 3600.0

Make = Callable[..., futures.Executor]


@pytest.fixture(params=["standard", "ours"])
def make(request: pytest.FixtureRequest) -> Make:
    """Return a class of executors: what both do is compared."""
    if request.param == "standard":
        return partial(futures.ProcessPoolExecutor, mp_context=mp.get_context("fork"))
    return partial(ProcessPoolExecutor, mp_context=mp.get_context("fork"))


def divide(a: int, b: int) -> int:
    return a // b


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def set_base(value: int) -> None:
    global base
    base = value


def add_base(value: int) -> tuple[int, int]:
    return base + value, os.getpid()


def fail(*_: object) -> None:
    raise RuntimeError("no worker for you")


def kill(_: object = None) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_calls_have_results_and_errors(make: Make) -> None:
    with make(2) as executor:
        future = executor.submit(divide, 7, b=2)
        assert future.result(WAIT) == 3
        assert (future.done(), future.running(), future.cancelled(), future.cancel()) == (True, *[False] * 3)
        bad = executor.submit(divide, 1, 0)
        with pytest.raises(ZeroDivisionError) as error:
            bad.result(WAIT)
        assert "return a // b" in str(error.value.__cause__)
        assert isinstance(executor.submit(divide, threading.Lock()).exception(WAIT), TypeError)
        total = executor.submit(np.sum, np.ones(100_000)).result(WAIT)
        assert total == 100_000
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        executor.submit(divide, 1, 1)


@pytest.mark.parametrize("chunksize", [1, 7, 1000])
def test_map_keeps_the_order(make: Make, chunksize: int) -> None:
    with make(2) as executor:
        assert list(executor.map(divide, range(50), [3] * 60, chunksize=chunksize)) == [
            i // 3 for i in range(50)
        ]
        results = executor.map(divide, [4, 1, 2], [2, 0, 1])
        assert next(results) == 2
        with pytest.raises(ZeroDivisionError):
            next(results)
        assert list(results) == []
        with pytest.raises(futures.TimeoutError):
            list(executor.map(sleep, [0.0, 0.4], timeout=0.1))
        with pytest.raises(ValueError, match="chunksize must be >= 1"):
            executor.map(sleep, [0.0], chunksize=0)


def test_futures_are_waited_for(make: Make) -> None:
    with make(2) as executor:
        slow, *quick = (executor.submit(sleep, seconds) for seconds in (0.3, 0.0, 0.01))
        assert set(futures.wait([slow, *quick], return_when=futures.FIRST_COMPLETED).done) <= set(quick)
        assert {future.result() for future in futures.as_completed([slow, *quick], WAIT)} == {0.0, 0.01, 0.3}


def test_calls_that_wait_are_cancelled(make: Make) -> None:
    with make(1) as executor:
        first = executor.submit(sleep, 0.3)
        waiting = [executor.submit(sleep, 0.0) for _ in range(5)]
        assert waiting[-1].cancel()
        assert waiting[-1].cancelled()
        assert waiting[-1] in futures.wait(waiting, WAIT).done
        with pytest.raises(futures.CancelledError):
            waiting[-1].result()
        later = [executor.submit(sleep, 0.2) for _ in range(5)]
        executor.shutdown(cancel_futures=True)
        assert first.result() == 0.3
        assert all(future.done() for future in later)
        assert later[-1].cancelled()


def test_initializers_and_replaced_workers(make: Make) -> None:
    with make(1, initializer=set_base, initargs=(40,)) as executor:
        assert executor.submit(add_base, 2).result(WAIT)[0] == 42
    with ProcessPoolExecutor(1, None, set_base, (40,), max_tasks_per_child=2) as executor:
        pids = [executor.submit(add_base, 2).result(WAIT)[1] for _ in range(6)]
    assert len(set(pids)) == 3


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"max_workers": 0}, ValueError),
        ({"max_workers": 1.5}, TypeError),
        ({"max_tasks_per_child": 1.5, "mp_context": std.get_context("spawn")}, TypeError),
        ({"initializer": 5}, TypeError),
    ],
)
def test_wrong_arguments_are_refused(arguments, error) -> None:
    for kind in (futures.ProcessPoolExecutor, ProcessPoolExecutor):
        with pytest.raises(error):
            kind(**arguments)
    with pytest.raises(ValueError, match="max_tasks_per_child"):
        ProcessPoolExecutor(1, max_tasks_per_child=0)


def test_numbers_may_be_of_numpy() -> None:
    with ProcessPoolExecutor(np.int64(1), max_tasks_per_child=np.int64(1)) as executor:
        assert list(executor.map(abs, [-1, -2])) == [1, 2]


async def run_some(executor: futures.Executor) -> list[int]:
    loop = asyncio.get_running_loop()
    return await asyncio.gather(*(loop.run_in_executor(executor, divide, i, 2) for i in range(10)))


def test_event_loop_runs_calls(make: Make) -> None:
    with make(2) as executor:
        assert asyncio.run(run_some(executor)) == [i // 2 for i in range(10)]


async def give_up(executor: futures.Executor) -> None:
    await asyncio.wait_for(asyncio.get_running_loop().run_in_executor(executor, sleep, LONG), 0.2)


def test_call_of_a_killed_worker_fails_alone(start_method: str) -> None:
    with ProcessPoolExecutor(2, mp.get_context(start_method)) as executor:
        others = [executor.submit(sleep, 0.002) for _ in range(20)]
        killed = executor.submit(kill)
        more = [executor.submit(sleep, 0.002) for _ in range(20)]
        with pytest.raises(mp.WorkerLost, match="result of kill is lost"):
            killed.result(WAIT)
        assert [future.result(WAIT) for future in (*others, *more)] == [0.002] * 40
        assert executor.submit(divide, 4, 2).result(WAIT) == 2


def test_running_call_is_cancelled() -> None:
    with ProcessPoolExecutor(1) as executor:
        future = executor.submit(sleep, LONG)
        waiting = executor.submit(divide, 4, 2)
        wait_until(future.running)
        assert not waiting.running()
        assert future.cancel()
        assert future.cancelled()
        assert future in futures.wait([future], WAIT).done
        assert waiting.result(WAIT) == 2
        with pytest.raises(asyncio.TimeoutError):
            asyncio.run(give_up(executor))
        assert executor.submit(divide, 6, 2).result(WAIT) == 3, "the worker was freed"


def test_initializer_that_raises_fails_all_calls() -> None:
    with ProcessPoolExecutor(2, initializer=fail) as executor:
        for future in [executor.submit(divide, 1, 1) for _ in range(5)]:
            with pytest.raises(mp.WorkerLost, match="no worker for you"):
                future.result(WAIT)


def test_map_takes_what_the_buffer_has_room_for() -> None:
    taken = []

    def items() -> Iterator[int]:
        for i in range(20):
            taken.append(i)
            yield i

    with ProcessPoolExecutor(2) as executor:
        results = executor.map(divide, items(), [1] * 20, buffersize=3)
        assert taken == [0, 1, 2]
        assert next(results) == 0
        assert taken == [0, 1, 2, 3]
        assert list(results) == list(range(1, 20))
        with pytest.raises(ValueError, match="buffersize"):
            executor.map(divide, [1], [1], buffersize=0)


class Dummy:
    """Has weak references."""


def make_dummy(_: int) -> Dummy:
    return Dummy()


def test_map_keeps_no_result(make: Make) -> None:
    with make(1) as executor:
        for dummy in executor.map(make_dummy, range(6), chunksize=3):
            reference = weakref.ref(dummy)
            del dummy
            # Without a GIL, an object ends when the thread that made it runs again: that of the results.
            wait_until(lambda reference=reference: executor.submit(abs, 0).result() or reference() is None)


class OwnLoss(mp.WorkerLost):
    """Has other arguments than its base."""

    def __init__(self, number: int) -> None:
        Exception.__init__(self, number)


def lose(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize("error", [mp.WorkerLost("f", 1, 2), OwnLoss(3)])
def test_call_may_raise_the_loss_of_a_worker_of_its_own(error: mp.WorkerLost) -> None:
    with ProcessPoolExecutor(1) as executor:
        raised = executor.submit(lose, error).exception(WAIT)
    assert type(raised) is type(error)
    assert raised.args == error.args


def test_shutdown_in_a_callback_is_refused(make: Make) -> None:
    errors = []

    def shut_down(_: object) -> None:
        try:
            executor.shutdown()
        except RuntimeError as error:
            errors.append(str(error))

    with make(1) as executor:
        executor.submit(sleep, 0.1).add_done_callback(shut_down)
    assert errors == ["cannot join current thread"]


@pytest.mark.parametrize("end", ["kill_workers", "terminate_workers"])
def test_workers_are_ended(end: str) -> None:
    executor = ProcessPoolExecutor(2)
    running = [executor.submit(sleep, LONG) for _ in range(2)]
    waiting = executor.submit(sleep, LONG)
    wait_until(lambda: all(future.running() for future in running))
    getattr(executor, end)()
    assert waiting.cancelled()
    for future in running:
        with pytest.raises(mp.WorkerLost):
            future.result(WAIT)
    executor.shutdown()


def map_in_pool(value: int) -> list[int]:
    with mp.Pool(2) as pool:
        return pool.map(abs, [value] * 3)


def test_calls_may_start_pools() -> None:
    with ProcessPoolExecutor(2) as executor:
        assert list(executor.map(map_in_pool, [-1, -2])) == [[1] * 3, [2] * 3]


def exit_in_pool() -> str:
    with mp.get_context("fork").Pool(1) as pool, pytest.raises(mp.WorkerLost) as lost:
        pool.apply(sys.exit, (3,))
    return str(lost.value)


def test_tasks_of_a_pool_in_a_call_end_their_worker_by_exit() -> None:
    with ProcessPoolExecutor(1, mp.get_context("fork")) as executor:
        assert "ended with exit status 3" in executor.submit(exit_in_pool).result(WAIT)


def test_dropped_executor_finishes_its_calls() -> None:
    future = ProcessPoolExecutor(1).submit(add_pid, 1)
    gc.collect()
    value, pid = future.result(WAIT)
    assert value == 1
    wait_until(lambda: not is_running(pid))


def add_pid(value: int) -> tuple[int, int]:
    return value, os.getpid()


@pytest.mark.parametrize("call", ["submit()", "child()"])
def test_process_ends_after_its_calls(call: str) -> None:
    """Without shutdown."""
    text = output(
        run_python(f"""
            import time
            import shmtensor.multiprocessing as mp
            from shmtensor.futures import ProcessPoolExecutor

            def work(i):
                time.sleep(0.1)
                print(i, flush=True)

            def submit():
                executor = ProcessPoolExecutor(1, mp.get_context("fork"))
                for i in range(3):
                    executor.submit(work, i)

            def child():
                process = mp.get_context("fork").Process(target=submit)
                process.start()
                process.join()
                print(process.exitcode)

            {call}
        """)
    )
    assert text.split() == ["0", "1", "2", *(["0"] if call == "child()" else [])]


def test_tensors_are_shared() -> None:
    tensor = st.zeros(1000)
    with ProcessPoolExecutor(1) as executor:
        executor.submit(fill, tensor, 5).result(WAIT)
    assert tensor[0] == 5


def fill(tensor: st.Tensor, value: float) -> None:
    tensor.fill_(value)


def test_callbacks_of_futures_may_submit() -> None:
    done = threading.Event()
    results = []

    def go_on(future: futures.Future[int]) -> None:
        results.append(future.result())
        if len(results) < 5:
            executor.submit(divide, 4, 2).add_done_callback(go_on)
        else:
            done.set()

    with ProcessPoolExecutor(1) as executor:
        executor.submit(divide, 4, 2).add_done_callback(go_on)
        assert done.wait(WAIT)
    assert results == [2] * 5
