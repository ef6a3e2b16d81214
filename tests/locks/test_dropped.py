"""Objects that end while their process has the lock, or takes part."""

from __future__ import annotations

import os
import threading
from multiprocessing import util
from typing import Any

import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.live_resources import assert_no_leaks
from tests.locks.holders import SECONDS, holder, kill, until


def take_and_forget(primitives: Any, ready: Any, end: Any) -> None:
    primitive = primitives.get()
    primitive.acquire()
    del primitive
    ready.set()
    end.wait(SECONDS)
    os._exit(0)


@pytest.mark.parametrize("kind", [st.Lock, st.RLock])
def test_process_that_forgot_its_lock_gives_it_back(kind: Any) -> None:
    with assert_no_leaks():
        primitive, primitives, ready, end = kind(), st.Queue[Any](), st.Event(), st.Event()
        process: Any = mp.get_context("spawn").Process(target=take_and_forget, args=(primitives, ready, end))
        process.start()
        primitives.put(primitive)
        assert ready.wait(SECONDS)
        assert not primitive.acquire(timeout=0.02)
        end.set()
        process.join()
        with pytest.raises(st.OwnerDied):
            primitive.acquire(timeout=SECONDS)
        primitive.release()
        del primitive, primitives, ready, end, process


@pytest.mark.parametrize("kind", [st.Lock, st.RLock])
def test_dropping_another_object_of_an_owned_lock_keeps_nothing(kind: Any) -> None:
    with assert_no_leaks():
        primitive, messages = kind(), st.Queue[Any]()
        messages.put_many([primitive] * 2)  # the second message may be for another process
        other = messages.get()
        primitive.acquire()
        del other
        primitive.release()
        del primitive
        messages.get()
        del messages


def test_dropped_locks_are_freed() -> None:
    with assert_no_leaks():
        for kind in (st.Lock, st.RLock):
            kind().acquire()


def test_units_of_a_dropped_semaphore_are_left_to_others() -> None:
    semaphore, semaphores = st.BoundedSemaphore(1), st.Queue[Any]()
    ready, end = st.Event(), st.Event()
    arguments = (semaphores, ready, end)
    process: Any = mp.get_context("spawn").Process(target=take_and_forget, args=arguments)
    process.start()
    semaphores.put(semaphore)
    assert ready.wait(SECONDS)
    end.set()
    process.join()
    assert semaphore.get_value() == 0
    semaphore.release()


def test_dropped_primitives_leave_nothing_for_the_end_of_the_process() -> None:
    """Thousands of finalizers delay it, and are memory that nothing frees."""
    for kind in (st.Semaphore, lambda: st.Barrier(1)):
        kind()
        before = len(util._finalizer_registry) + len(util._afterfork_registry)
        for _ in range(10):
            kind()
        assert len(util._finalizer_registry) + len(util._afterfork_registry) <= before


def meet_and_forget(barriers: Any, end: Any) -> None:
    barrier = barriers.get()
    barrier.wait(SECONDS)
    del barrier
    end.wait(SECONDS)
    os._exit(0)


def test_process_that_forgot_a_barrier_leaves_it() -> None:
    barrier, barriers, end = st.Barrier(2), st.Queue[Any](), st.Event()
    process: Any = mp.get_context("spawn").Process(target=meet_and_forget, args=(barriers, end))
    process.start()
    barriers.put(barrier)
    barrier.wait(SECONDS)
    end.set()
    process.join()
    assert not barrier.broken


def receive_again(primitive: Any) -> Any:
    primitives = st.Queue[Any]()
    primitives.put(primitive)
    return primitives.get()


def acquire_and_drop_another(semaphore: Any) -> None:
    another = receive_again(semaphore)
    semaphore.acquire()
    del another


def meet_and_drop_another(barrier: Any) -> None:
    another = receive_again(barrier)
    barrier.wait(SECONDS)
    del another


def test_process_that_dropped_another_object_has_its_units() -> None:
    semaphore = st.Semaphore(1)
    with holder(semaphore, acquire_and_drop_another) as process:
        assert not semaphore.acquire(block=False)
        kill(process)
        assert semaphore.acquire(timeout=SECONDS)


def test_process_that_dropped_another_object_takes_part() -> None:
    barrier = st.Barrier(1)
    with holder(barrier, meet_and_drop_another) as process:
        kill(process)
        until(lambda: barrier.broken)


def test_gc_releases_a_dropped_lock_that_no_other_process_has() -> None:
    """The other process has it while this one drops it."""
    with assert_no_leaks():
        lock, ready, end = st.Lock(), st.Event(), st.Event()
        process: Any = mp.get_context("fork").Process(target=hold, args=(lock, ready, end))
        process.start()
        assert ready.wait(SECONDS)
        lock.acquire()
        del lock
        kept = st.stats()["blocks"]
        end.set()
        process.join()
        while st.stats()["blocks"] >= kept:
            st.gc()
        del ready, end, process


def hold(_lock: Any, ready: Any, end: Any) -> None:
    ready.set()
    end.wait(SECONDS)


def take_and_exit(semaphore: Any) -> None:
    """Exit while another thread has the words of the semaphore locked, for a moment."""
    semaphore.acquire()
    lock = memoryview(semaphore._storage)[16:20].cast("I")
    lock[0] = 1
    threading.Timer(0.05, lock.__setitem__, (0, 0)).start()


def test_units_stay_taken_though_the_owner_of_the_words_does_not_run_for_a_moment() -> None:
    """Regression: an exit waited 20 ms for them, then gave the units back, as the end of a killed process."""
    semaphore = st.Semaphore(2)
    process = mp.get_context("fork").Process(target=take_and_exit, args=(semaphore,))
    process.start()
    process.join(SECONDS)
    assert process.exitcode == 0
    assert semaphore.get_value() == 1
