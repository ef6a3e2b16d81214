"""Atomics between processes, in programs as a user writes them: nothing is lost, whoever is killed."""

from __future__ import annotations

import time

import numpy as np
import pytest

import shmtensor as st
from tests.helpers.children import end, running, wait_until

DTYPES = ["int32", "uint32", "int64", "uint64", "float32", "float64"]


def run(ctx, work, *each: tuple) -> None:
    """Run `work` in one process for each tuple of arguments."""
    processes = [ctx.Process(target=work, args=arguments) for arguments in each]
    for process in processes:
        process.start()
    for process in processes:
        end(process)
        assert process.exitcode == 0


def count_bins(hist: st.Tensor, seed: int) -> None:
    bins = np.random.default_rng(seed).integers(0, len(hist), 200_000)
    st.atomic.add(hist, bins, 1)


def test_histogram_of_four_processes_is_exact(ctx) -> None:
    hist = st.zeros(16, np.int64)
    run(ctx, count_bins, *((hist, seed) for seed in range(4)))
    expected = np.zeros(16, np.int64)
    for seed in range(4):
        expected += np.bincount(np.random.default_rng(seed).integers(0, 16, 200_000), minlength=16)
    np.testing.assert_array_equal(hist, expected)


def increment(counters: list[st.Tensor], times: int) -> None:
    for counter in counters:
        for _ in range(times):
            st.atomic.add(counter, 0, 1)


def test_counter_of_each_dtype_is_exact(ctx) -> None:
    times = 100_000
    counters = [st.zeros(1, dtype) for dtype in DTYPES]
    run(ctx, increment, (counters, times), (counters, times))
    assert [counter[0].item() for counter in counters] == [2 * times] * len(DTYPES)


def add_until_killed(counter: st.Tensor) -> None:
    while True:
        st.atomic.add(counter, 0, 1)
        st.atomic.add(counter, np.zeros(10_000, np.int64), 1)


def test_killed_worker_leaves_a_usable_counter(ctx) -> None:
    counter = st.zeros(1, np.int64)
    with running(ctx, add_until_killed, counter) as worker:
        wait_until(lambda: st.atomic.load(counter, 0) > 100_000)
        worker.kill()
    left = st.atomic.load(counter, 0)
    assert st.atomic.add(counter, 0, 5) == left
    run(ctx, increment, ([counter], 1000), ([counter], 1000))
    assert counter[0].item() == left + 2005


FREE = -1


def claim_jobs(owners: st.Tensor, mine: st.Tensor, rank: int) -> None:
    for job in range(len(owners)):
        if st.atomic.compare_exchange(owners, job, FREE, rank):
            mine[rank, job] = 1


def test_each_job_is_claimed_by_one_process(ctx) -> None:
    owners = st.full(5000, FREE, dtype=np.int32)
    mine = st.zeros((3, 5000), np.int32)
    run(ctx, claim_jobs, *((owners, mine, rank) for rank in range(3)))
    np.testing.assert_array_equal(mine.numpy().sum(axis=0), 1)
    np.testing.assert_array_equal(owners, mine.numpy().argmax(axis=0))


def raise_maximum(best: st.Tensor, seed: int) -> None:
    numbers = np.random.default_rng(seed).integers(0, 2**62, 20_000)
    for number in numbers[:2000]:
        st.atomic.maximum(best, (), number)
    st.atomic.maximum(best, (), int(numbers.max()))


def test_maximum_of_two_processes(ctx) -> None:
    best = st.zeros((), np.uint64)
    run(ctx, raise_maximum, (best, 1), (best, 2))
    assert best.item() == max(np.random.default_rng(seed).integers(0, 2**62, 20_000).max() for seed in (1, 2))


def answer_each(turns: st.Tensor, times: int) -> None:
    for turn in range(times):
        assert st.wait_for_change(turns, 0, 2 * turn, timeout=60)
        turns[0] = 2 * turn + 2  # a plain write is seen, too


@pytest.mark.parametrize("dtype", ["uint32", "float64"])
def test_two_processes_take_turns(ctx, dtype) -> None:
    turns = st.zeros(1, dtype)
    with running(ctx, answer_each, turns, 100) as other:
        for turn in range(100):
            st.atomic.add(turns, 0, 1)
            assert st.wait_for_change(turns, 0, 2 * turn + 1, timeout=60)
    assert other.exitcode == 0
    assert turns[0].item() == 200


def write_later(flag: st.Tensor, index, delay: float) -> None:
    time.sleep(delay)
    flag.numpy()[index] = 1


def test_wait_sees_plain_write_of_another_process(ctx) -> None:
    flag = st.zeros((2, 2), np.int32)
    with running(ctx, write_later, flag, (1, 0), 0.2):
        assert not st.wait_for_change(flag, (0, 0), 0, timeout=0.05)
        assert st.wait_for_change(flag, (1, 0), 0)


def test_functions_can_be_sent_as_tasks(ctx) -> None:
    counter = st.zeros(1, np.int64)
    with ctx.Pool(2) as pool:
        before = pool.starmap(st.atomic.add, [(counter, 0, 1)] * 20)
        pool.close()
        pool.join()
    assert sorted(before) == list(range(20))
