"""Lock and RLock: their methods, and what the next owner gets after a death."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import threading
import time
from typing import Any

import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import output, run_python, running
from tests.helpers.live_resources import assert_no_leaks
from tests.locks.holders import SECONDS, holder, kill

BOTH = pytest.mark.parametrize("kind", [st.Lock, st.RLock])


def acquire(lock: Any) -> None:
    lock.acquire()


@BOTH
@pytest.mark.parametrize("method", ["fork", "spawn", "server"])
def test_next_owner_is_told_once(kind: Any, method: str) -> None:
    with assert_no_leaks():
        lock = kind()
        with holder(lock, acquire, method) as process:
            assert not lock.acquire(block=False)
            assert not lock.acquire(timeout=0.01)
            pid = kill(process)
            with pytest.raises(st.OwnerDied, match=f"process {pid} ended with the lock") as raised:
                lock.acquire(timeout=SECONDS)
        assert (raised.value.pid, lock.locked(), lock._is_mine()) == (pid, True, True)
        assert 0 <= raised.value.seconds < SECONDS
        assert pickle.loads(pickle.dumps(raised.value)).pid == pid
        lock.release()
        with lock:
            assert lock.locked()
        assert not lock.locked()
        del lock, raised, process


@BOTH
def test_with_gives_the_lock_back_if_it_raises(kind: Any) -> None:
    lock = kind()
    with holder(lock, acquire) as process:
        kill(process)
        with pytest.raises(st.OwnerDied), lock:
            pytest.fail("the block ran")
    assert not lock.locked()
    with lock:
        pass


@BOTH
def test_silent_lock_is_passed_on_with_a_line_in_the_log(kind: Any, caplog: Any) -> None:
    lock = kind(on_death="pass")
    with holder(lock, acquire) as process:
        pid = kill(process)
        assert lock.acquire(timeout=SECONDS)
    lock.release()
    assert f"process {pid} ended with the lock" in caplog.text
    assert (lock.on_death, kind().on_death) == ("pass", "raise")


@BOTH
@pytest.mark.parametrize("method", ["fork", "spawn", "server"])
def test_exit_gives_the_lock_back(kind: Any, method: str) -> None:
    lock = kind()
    process: Any = mp.get_context(method).Process(target=acquire, args=(lock,))
    process.start()
    process.join()
    assert process.exitcode == 0
    with pytest.raises(st.OwnerDied):
        lock.acquire(timeout=SECONDS)
    lock.release()


def test_one_waiter_of_several_is_told() -> None:
    lock = st.Lock()
    told: list[int] = []

    def wait() -> None:
        try:
            assert lock.acquire(timeout=SECONDS)
        except st.OwnerDied as died:
            told.append(died.pid)
        lock.release()

    with holder(lock, acquire) as process:
        threads = [threading.Thread(target=wait) for _ in range(8)]
        for thread in threads:
            thread.start()
        pid = kill(process)
        for thread in threads:
            thread.join()
    assert told == [pid]


def test_owner_that_is_stopped_keeps_the_lock() -> None:
    import signal

    lock = st.Lock()
    with holder(lock, acquire) as process:
        os.kill(process.pid, signal.SIGSTOP)
        assert not lock.acquire(timeout=0.2)
        kill(process)
        with pytest.raises(st.OwnerDied):
            lock.acquire(timeout=SECONDS)
    lock.release()


def killed_manager_holder(lock: Any, ready: Any) -> None:
    lock.acquire()
    ready.set()
    time.sleep(600)


def test_owner_and_manager_are_killed() -> None:
    """In a program of its own, since its session is not used by other tests."""
    program = """
import os, signal, sys, time
import shmtensor as st, shmtensor.multiprocessing as mp
from tests.helpers.children import manager_pids
from tests.locks.test_lock import killed_manager_holder
if __name__ == "__main__":
    lock, ready = st.Lock(), st.Event()
    process = mp.get_context("fork").Process(target=killed_manager_holder, args=(lock, ready))
    process.start()
    assert ready.wait(60)
    for pid in manager_pids(st.stats()["session"]):
        os.kill(pid, signal.SIGKILL)
    process.kill()
    process.join()
    try:
        lock.acquire(timeout=60)
    except st.OwnerDied as died:
        print(died.pid == process.pid)
    lock.release()
    print(lock.acquire(timeout=60))
"""
    assert output(run_python(program)) == "True\nTrue\n"


def test_lock_of_another_thread_or_process_can_be_released() -> None:
    lock = st.Lock()
    lock.acquire()
    assert not lock._is_mine() or threading.current_thread() is threading.main_thread()
    thread = threading.Thread(target=lock.release)
    thread.start()
    thread.join()
    assert not lock.locked()
    with holder(lock, acquire):
        lock.release()
        assert lock.acquire(block=False)
        lock.release()
    assert lock.acquire(timeout=SECONDS)
    lock.release()


def test_release_without_the_lock_is_an_error() -> None:
    lock, recursive = st.Lock(), st.RLock()
    with pytest.raises(ValueError, match="released too many times"):
        lock.release()
    with pytest.raises(AssertionError, match="not owned by thread"):
        recursive.release()
    with recursive:
        raised: list[BaseException] = []

        def release() -> None:
            try:
                recursive.release()
            except AssertionError as error:
                raised.append(error)

        thread = threading.Thread(target=release)
        thread.start()
        thread.join()
        assert len(raised) == 1
        assert recursive._is_mine()


def test_wrong_arguments_leave_the_lock() -> None:
    lock = st.Lock()
    for arguments in ({"timeout": "long"}, {"wait": True}, {"timeout": float("nan")}):
        with pytest.raises((TypeError, ValueError)):
            lock.acquire(**arguments)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        lock.acquire(True, 1.0, 2)  # type: ignore[call-arg]
    assert not lock.locked()
    with pytest.raises(ValueError, match="on_death"):
        st.Lock(on_death="ignore")  # type: ignore[arg-type]
    assert lock.acquire(True, None)
    assert not lock.acquire(timeout=-5)


def test_recursive_lock_counts() -> None:
    lock = st.RLock()
    for _ in range(3):
        assert lock.acquire(block=False)
    with holder(st.Event(), lambda _: None):  # a fork: the child does not have the lock
        pass
    for _ in range(2):
        lock.release()
        assert lock.locked()
    lock.release()
    assert not lock.locked()


def test_thread_that_ends_gives_a_recursive_lock_back() -> None:
    recursive, lock = st.RLock(), st.Lock()
    thread = threading.Thread(target=lambda: (recursive.acquire(), lock.acquire()))
    thread.start()
    thread.join()
    with pytest.raises(st.OwnerDied) as raised:
        recursive.acquire(timeout=SECONDS)
    assert raised.value.pid == os.getpid()
    recursive.release()
    assert lock.locked()  # another thread may release it


def inherited(lock: Any, recursive: Any, result: Any) -> None:
    result.put((lock._is_mine(), recursive._is_mine(), lock.acquire(False), recursive.acquire(False)))


def test_forked_child_does_not_have_what_its_parent_has() -> None:
    lock, recursive, result = st.Lock(), st.RLock(), st.Queue[Any]()
    with lock, recursive:
        with running(mp.get_context("fork"), inherited, lock, recursive, result):
            assert result.get(timeout=SECONDS) == (False, False, False, False)
        assert lock.locked()
        assert recursive._is_mine()


@BOTH
def test_lock_travels_as_itself(kind: Any) -> None:
    lock, queue = kind(), mp.get_context("fork").SimpleQueue()
    queue.put([lock, lock])
    first, second = queue.get()
    assert first is second
    with lock:
        assert not st.Lock.acquire(first, False) if kind is st.Lock else first.locked()
    assert not first.locked()
    for call in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(RuntimeError, match="only be shared between processes"):
            call(lock)
    name = f"lock-{os.getpid()}-{kind.__name__}"
    st.publish(name, lock)
    try:
        attached = st.attach(name)
        with attached:
            assert lock.locked()
    finally:
        st.unpublish(name)


def test_locks_take_little_memory() -> None:
    gc.collect()
    before = st.stats()["bytes_live"]
    locks = [st.Lock() for _ in range(1000)]
    assert st.stats()["bytes_live"] - before == 64_000
    with locks[7], locks[8]:
        assert [lock.locked() for lock in locks].count(True) == 2


def test_interrupt_while_waiting() -> None:
    import signal

    from tests.helpers.interrupts import HandlerError

    def handler(*_: object) -> None:
        raise HandlerError

    lock = st.Lock()
    old = signal.signal(signal.SIGALRM, handler)
    try:
        with holder(lock, acquire):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(HandlerError):
                lock.acquire()
            assert not lock._is_mine()
    finally:
        signal.signal(signal.SIGALRM, old)


def test_lock_without_init() -> None:
    class Named(st.Lock):
        def __init__(self, name: str) -> None:
            self.name = name

    with pytest.raises(RuntimeError, match="super"):
        Named("x").acquire()
