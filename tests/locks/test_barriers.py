"""Barriers: rounds, and what breaks them."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import kill_manager_of
from tests.helpers.live_resources import assert_no_leaks
from tests.locks.holders import SECONDS, holder, kill, run, until

METHODS = pytest.mark.parametrize("method", ["fork", "spawn", "server"])


def meet(barrier: Any, times: int) -> None:
    for _ in range(times):
        barrier.wait(SECONDS)


def meet_and_stay(barrier: Any) -> None:
    barrier.wait(SECONDS)


def wait_or_fail(barrier: Any, raised: list[str], seconds: float = SECONDS) -> None:
    try:
        barrier.wait(seconds)
    except threading.BrokenBarrierError as error:
        raised.append(str(error))


@METHODS
def test_killed_party_breaks_the_barrier(method: str) -> None:
    with assert_no_leaks():
        barrier = st.Barrier(2)
        raised: list[str] = []
        thread = threading.Thread(target=wait_or_fail, args=(barrier, raised))
        thread.start()
        with holder(barrier, meet_and_stay, method) as process:
            thread.join()
            assert raised == []
            thread = threading.Thread(target=wait_or_fail, args=(barrier, raised))
            thread.start()
            while barrier.n_waiting == 0:
                pass
            pid = kill(process)
            thread.join()
        assert raised == [f"process {pid}, which took part, was killed"]
        assert barrier.broken
        with pytest.raises(threading.BrokenBarrierError, match=f"process {pid}"):
            barrier.wait()
        barrier.reset()
        assert not barrier.broken
        del barrier, process, thread


@METHODS
def test_party_that_exits_leaves_the_barrier(method: str) -> None:
    barrier = st.Barrier(1)
    for _ in range(2):
        assert run(method, meet, barrier, 3) == 0
    assert barrier.wait() == 0
    assert not barrier.broken


def test_rounds_of_four_processes_are_counted() -> None:
    barrier, context = st.Barrier(4), mp.get_context("fork")
    ranks: list[Any] = [context.Process(target=meet, args=(barrier, 500)) for _ in range(3)]
    for rank in ranks:
        rank.start()
    indices = [barrier.wait(SECONDS) for _ in range(500)]
    for rank in ranks:
        rank.join()
    assert {rank.exitcode for rank in ranks} == {0}
    assert set(indices) <= {0, 1, 2, 3}
    assert (barrier.n_waiting, barrier.broken) == (0, False)


def test_action_that_raises_breaks_the_barrier() -> None:
    calls: list[int] = []

    def act() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyError("action")

    barrier = st.Barrier(1, act)
    assert barrier.wait() == 0
    with pytest.raises(KeyError, match="action"):
        barrier.wait()
    assert barrier.broken
    for number in (0, 65_536):
        with pytest.raises(ValueError, match="parties must be"):
            st.Barrier(number)


def test_reset_breaks_the_round_and_no_other() -> None:
    barrier = st.Barrier(2)
    results: list[object] = []

    def wait() -> None:
        try:
            results.append(barrier.wait(SECONDS))
        except threading.BrokenBarrierError as error:
            results.append(type(error))

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: barrier.n_waiting == 1)
    barrier.reset()
    thread.join()
    assert results == [threading.BrokenBarrierError]
    thread = threading.Thread(target=wait)
    thread.start()
    assert {barrier.wait(SECONDS)} | set(results[1:]) <= {0, 1}
    thread.join()
    assert not barrier.broken
    barrier.reset()
    with pytest.raises(threading.BrokenBarrierError):
        barrier.wait(0.01)
    assert barrier.broken


class Interruption(Exception):
    pass


def wait_until_interrupted(barrier: Any) -> None:
    """Wait until a signal handler raises."""

    def interrupt(*_: object) -> None:
        raise Interruption

    def wait() -> None:
        timer.start()
        barrier.wait(SECONDS)

    before = signal.signal(signal.SIGUSR1, interrupt)
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        with pytest.raises(Interruption):
            wait()
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


@contextlib.contextmanager
def full_round(kind: Any = st.Barrier) -> Iterator[tuple[Any, list[str]]]:
    """A barrier of one party, whose action takes as long as the block; what that party gets in the end."""
    acts, end = threading.Event(), threading.Event()

    def act() -> None:
        acts.set()
        assert end.wait(SECONDS)

    barrier = kind(1, act)
    raised: list[str] = []
    party = threading.Thread(target=wait_or_fail, args=(barrier, raised))
    party.start()
    assert acts.wait(SECONDS)
    try:
        yield barrier, raised
    finally:
        end.set()
        party.join()


def test_signal_interrupts_who_waits_for_the_end_of_a_full_round() -> None:
    with full_round() as (barrier, raised):
        wait_until_interrupted(barrier)
    assert (raised, barrier.n_waiting, barrier.broken) == ([], 0, False)
    assert barrier.wait(SECONDS) == 0


@pytest.mark.parametrize("kind", [threading.Barrier, st.Barrier])
def test_timeout_does_not_break_a_full_round(kind: Any) -> None:
    with full_round(kind) as (barrier, raised):
        late = threading.Thread(target=wait_or_fail, args=(barrier, raised, 0.01))
        late.start()
        late.join(0.1)
        assert late.is_alive()
        assert not barrier.broken
    late.join()
    assert raised == []


def test_killed_manager_is_replaced_for_who_waits_for_the_end_of_a_full_round() -> None:
    barrier = st.Barrier(1, lambda: threading.Event().wait(SECONDS))
    process: Any = mp.get_context("fork").Process(target=barrier.wait)
    process.start()
    until(lambda: barrier.n_waiting == 1)
    kill_manager_of(st.stats()["session"])
    pid = kill(process)
    with pytest.raises(threading.BrokenBarrierError, match=f"process {pid}"):
        barrier.wait(SECONDS)


def test_signal_breaks_the_round_of_its_party() -> None:
    barrier = st.Barrier(2)
    wait_until_interrupted(barrier)
    assert barrier.broken
