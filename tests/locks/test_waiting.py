"""Semaphores, events and conditions, and the deaths of their processes."""

from __future__ import annotations

import contextlib
import threading
from functools import partial
from typing import Any

import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.live_resources import assert_no_leaks
from tests.locks.holders import SECONDS, holder, kill, run, until

METHODS = pytest.mark.parametrize("method", ["fork", "spawn", "server"])


def take_two(semaphore: Any) -> None:
    semaphore.acquire()
    semaphore.acquire()


def take_two_and_lock(semaphore: Any, lock: Any) -> None:
    take_two(semaphore)
    lock.acquire()


# --- semaphores ---


@METHODS
@pytest.mark.parametrize("kind", [st.Semaphore, st.BoundedSemaphore])
def test_units_of_a_killed_process_come_back(kind: Any, method: str) -> None:
    with assert_no_leaks():
        semaphore = kind(3)
        with holder(semaphore, take_two, method) as process:
            assert semaphore.get_value() == 1
            assert semaphore.acquire(block=False)
            assert not semaphore.acquire(block=False)
            assert not semaphore.acquire(timeout=0.01)
            kill(process)
            assert semaphore.acquire(timeout=SECONDS)
            assert semaphore.acquire(timeout=SECONDS)
        assert not semaphore.acquire(block=False)
        semaphore.release(3)
        assert semaphore.get_value() == 3
        del semaphore, process


@METHODS
def test_units_of_a_process_that_exits_stay_taken(method: str) -> None:
    semaphore, lock = st.BoundedSemaphore(3), st.Lock()
    assert run(method, take_two_and_lock, semaphore, lock) == 0
    with pytest.raises(st.OwnerDied):  # the manager has noticed the end
        lock.acquire(timeout=SECONDS)
    lock.release()
    assert semaphore.get_value() == 1
    semaphore.release(2)  # by another process
    with pytest.raises(ValueError, match="released too many times"):
        semaphore.release()


def test_unit_of_a_killed_process_may_still_be_released() -> None:
    """As a semaphore for the places of a buffer, which another process empties."""
    semaphore = st.BoundedSemaphore(2)
    with holder(semaphore, take_two) as process:
        kill(process)
        until(lambda: semaphore.get_value() == 2)
    semaphore.release(2)
    assert semaphore.get_value() == 2
    with pytest.raises(ValueError, match="released too many times"):
        semaphore.release()


def test_signals_have_no_owner() -> None:
    semaphore = st.Semaphore(0)
    semaphore.release(2)
    with holder(semaphore, take_two) as process:
        kill(process)
    assert not semaphore.acquire(timeout=0.2)
    semaphore.release()
    assert semaphore.get_value() == 1


def test_value_and_its_limits() -> None:
    semaphore = st.Semaphore(2)
    semaphore.release(3)
    assert (semaphore.get_value(), semaphore.locked(), repr(semaphore)) == (5, False, "<Semaphore: value 5>")
    for _ in range(5):
        assert semaphore.acquire(False)
    assert semaphore.locked()
    for units in (2**31, 2**70):
        with pytest.raises(ValueError, match="released too many times"):
            semaphore.release(units)
    for units in (0, -(2**70)):
        with pytest.raises(ValueError, match="one or more"):
            semaphore.release(units)
    with pytest.raises(ValueError, match="value must be"):
        st.Semaphore(-1)
    bounded = st.BoundedSemaphore(2)
    bounded.acquire()
    with pytest.raises(ValueError, match="released too many times"):
        bounded.release(2)
    assert bounded.get_value() == 1
    large = st.Semaphore(2**31 - 1)
    assert large.acquire()
    assert large.get_value() == 2**31 - 2


def test_many_units_are_released_together() -> None:
    for _ in range(100):  # one after the other, they would take half an hour
        semaphore = st.Semaphore(0)
        semaphore.release(2**31 - 1)
        assert semaphore.get_value() == 2**31 - 1
    own = st.Semaphore(3)
    take_two(own)
    own.release(4)  # two of them are its own
    assert own.get_value() == 5


def acquire_and_release(semaphore: Any, most: Any, times: int) -> None:
    for _ in range(times):
        with semaphore:
            inside = st.atomic.add(most, 0, 1) + 1
            st.atomic.maximum(most, 1, inside)
            st.atomic.add(most, 0, -1)


def test_never_more_than_the_value_are_inside() -> None:
    semaphore, most = st.Semaphore(2), st.zeros(2, dtype="int64")
    context: Any = mp.get_context("fork")
    workers = [context.Process(target=acquire_and_release, args=(semaphore, most, 3000)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert semaphore.get_value() == 2
    assert most.tolist()[0] == 0
    assert most.tolist()[1] <= 2


# --- events ---


def test_event_that_is_set_and_cleared_at_once_wakes() -> None:
    event = st.Event()
    results: list[bool] = []
    threads = [threading.Thread(target=lambda: results.append(event.wait(SECONDS))) for _ in range(4)]
    for thread in threads:
        thread.start()
    while len(results) < 4:
        event.set()
        event.clear()
    for thread in threads:
        thread.join()
    assert results == [True] * 4
    assert not event.wait(0)


def wait_for(event: Any) -> None:
    assert event.wait(SECONDS)


@METHODS
def test_killed_waiter_of_an_event_delays_nobody(method: str) -> None:
    event = st.Event()
    context: Any = mp.get_context(method)
    waiters = [context.Process(target=wait_for, args=(event,)) for _ in range(2)]
    for waiter in waiters:
        waiter.start()
    kill(waiters[0])
    event.set()
    waiters[1].join()
    assert waiters[1].exitcode == 0


# --- conditions ---


def wait_once(condition: Any, entered: Any, woken: Any) -> None:
    with contextlib.suppress(st.OwnerDied):
        with condition:
            entered.release()
            condition.wait()
        woken.release()


def start_waiters(condition: Any, number: int, method: str = "fork") -> tuple[list[Any], Any]:
    entered, woken = st.Semaphore(0), st.Semaphore(0)
    context: Any = mp.get_context(method)
    waiters = []
    for _ in range(number):
        waiters.append(context.Process(target=wait_once, args=(condition, entered, woken)))
        waiters[-1].start()
        assert entered.acquire(timeout=SECONDS)
    with condition:  # all wait
        return waiters, woken


@METHODS
@pytest.mark.parametrize("lock", [None, st.Lock])
def test_killed_waiter_gets_no_notification(method: str, lock: Any) -> None:
    with assert_no_leaks():
        condition = st.Condition(lock and lock())
        waiters, woken = start_waiters(condition, 3, method)
        for waiter in waiters[:2]:
            kill(waiter)
        until(partial(_notifies, condition, woken))
        waiters[2].join()
        assert waiters[2].exitcode == 0
        del condition, waiters, woken


def _notifies(condition: Any, woken: Any) -> bool:
    with condition:
        condition.notify()
    return bool(woken.acquire(timeout=0.05))


def test_notification_of_a_killed_process_goes_to_another() -> None:
    """The process is stopped when it is notified, and killed then."""
    import os
    import signal

    condition = st.Condition()
    waiters, woken = start_waiters(condition, 2)
    os.kill(waiters[0].pid, signal.SIGSTOP)
    with condition:
        condition.notify()
    assert not woken.acquire(timeout=0.1)
    kill(waiters[0])
    assert woken.acquire(timeout=SECONDS)
    waiters[1].join()


def test_notifications_are_exact() -> None:
    condition = st.Condition()
    woken: list[int] = []
    entered = st.Semaphore(0)

    def wait(number: int) -> None:
        with condition:
            entered.release()
            assert condition.wait(SECONDS)
            woken.append(number)

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
        entered.acquire()
    with condition:
        condition.notify(2)
    until(lambda: len(woken) == 2)
    threading.Event().wait(0.05)
    with condition:
        assert len(woken) == 2
        condition.notify(0)
        condition.notify(2**70)
    for thread in threads:
        thread.join()
    assert sorted(woken) == list(range(6))
    with condition:
        condition.notify_all()  # no thread waits
        assert not condition.wait(0.01)


def test_thread_does_not_take_its_own_notification() -> None:
    condition, entered = st.Condition(), st.Semaphore(0)
    woken: list[bool] = []

    def wait() -> None:
        with condition:
            entered.release()
            woken.append(condition.wait(SECONDS))

    thread = threading.Thread(target=wait)
    thread.start()
    entered.acquire()
    with condition:
        condition.notify()
        assert not condition.wait(0.05)
    thread.join()
    assert woken == [True]


def test_condition_keeps_the_depth_of_its_lock() -> None:
    condition = st.Condition()
    with condition, condition:
        assert not condition.wait(0.01)
        assert condition._lock._depth() == 2
    assert not condition._lock.locked()


def test_condition_needs_its_lock() -> None:
    condition = st.Condition(st.Lock())
    for call in (condition.wait, condition.notify, condition.notify_all):
        with pytest.raises(RuntimeError, match="un-acquired lock"):
            call()
    with pytest.raises(TypeError, match="needs a Lock or RLock of this package, not lock"):
        st.Condition(threading.Lock())  # type: ignore[arg-type]
    assert condition.acquire()
    assert condition.wait_for(lambda: 7) == 7
    assert condition.wait_for(lambda: 0, timeout=0.01) == 0
    condition.release()


def test_waiter_is_told_that_the_notifier_died_with_the_lock() -> None:
    condition = st.Condition()
    with condition, holder_later(condition) as process, pytest.raises(st.OwnerDied) as raised:
        condition.wait(SECONDS)
    assert raised.value.pid == process.pid
    assert not condition._lock.locked()


def test_notification_of_a_wait_that_raises_goes_to_another() -> None:
    condition = st.Condition()
    waiters, woken = start_waiters(condition, 2)
    with holder_later(condition):
        pass
    assert woken.acquire(timeout=SECONDS)
    for waiter in waiters:
        waiter.join()


def notify_and_die(condition: Any) -> None:
    import os
    import signal

    condition.acquire()
    condition.notify()
    os.kill(os.getpid(), signal.SIGKILL)


class holder_later:
    """A process that acquires the condition, notifies, and is killed."""

    def __init__(self, condition: Any) -> None:
        self._process: Any = mp.get_context("fork").Process(target=notify_and_die, args=(condition,))

    def __enter__(self) -> Any:
        self._process.start()
        return self._process

    def __exit__(self, *_: object) -> None:
        self._process.join()
