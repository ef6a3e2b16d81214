"""Daemonic processes, such as a pool's workers, may start processes, which end with them."""

from __future__ import annotations

import os
import signal
import time

import pytest

import shmtensor.multiprocessing as mp
from shmtensor.multiprocessing import WorkerLost
from tests.helpers.children import end, is_running, wait_until
from tests.helpers.queues import take


def put_pid_and_wait(pids) -> None:
    pids.put(os.getpid())
    time.sleep(1000)


def leave_child(pids, method) -> bool:
    """Start a process and leave it running; return whether this process is daemonic."""
    mp.get_context(method).Process(target=put_pid_and_wait, args=(pids,)).start()
    return mp.current_process().daemon


def wait_for_children(pids, method) -> None:
    leave_child(pids, method)
    with mp.get_context(method).Pool(1) as pool:
        pool.apply(put_pid_and_wait, (pids,))


@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_children_end_with_the_worker_of_a_pool(ctx, start_method, how) -> None:
    pids = ctx.SimpleQueue()
    with ctx.Pool(1) as pool:
        result = pool.apply_async(wait_for_children, (pids, start_method))
        children = [take(pids), take(pids)]
        if how == "kill":
            os.kill(pool._pool[0].pid, signal.SIGKILL)
            with pytest.raises(WorkerLost):
                result.get(60)
    pool.join()
    wait_until(lambda: not any(map(is_running, children)), what="the end of the worker's children")


@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_children_end_with_a_daemonic_process(ctx, start_method, how) -> None:
    pids = ctx.SimpleQueue()
    process = ctx.Process(target=wait_for_children, args=(pids, start_method), daemon=True)
    process.start()
    children = [take(pids), take(pids)]
    getattr(process, how)()
    end(process)
    wait_until(lambda: not any(map(is_running, children)), what="the end of the process's children")


def test_children_that_a_task_left_end_with_the_pool(ctx, start_method) -> None:
    pids = ctx.SimpleQueue()
    pool = ctx.Pool(1)
    assert pool.apply(leave_child, (pids, start_method))
    child = take(pids)
    assert is_running(child)
    pool.close()
    pool.join()
    wait_until(lambda: not is_running(child), what="the end of the worker's child")
