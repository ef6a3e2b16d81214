"""Forks of a process whose other threads wait in a queue, or use it."""

from __future__ import annotations

import ctypes
import os
import queue
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest

import shmtensor as st
from tests.helpers.children import fork
from tests.helpers.numbered_messages import message, number_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

WAIT = 30.0
FORKS = 20


def in_child(work: Callable[[], object], expected: int = 0) -> None:
    """Run `work` in a forked child, and check its exit status."""
    assert os.waitstatus_to_exitcode(os.waitpid(fork(work), 0)[1]) == expected


class Threads:
    """A thread that puts numbered messages, and one that gets them; a child may do so as well."""

    def __init__(self) -> None:
        self.messages: st.Queue = st.Queue(50)
        self.put: list[int] = []
        self.got: list[int] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._produce, self._consume)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        producer, consumer = self._threads
        self._stop.set()
        producer.join(WAIT)
        self.messages.put("end", timeout=WAIT)
        consumer.join(WAIT)
        assert not producer.is_alive()
        assert not consumer.is_alive()

    def _produce(self) -> None:
        for number in range(1 << 20):
            if self._stop.is_set():
                break
            self.messages.put(message(number), timeout=WAIT)
            self.put.append(number)

    def _consume(self) -> None:
        while not isinstance(item := self.messages.get(timeout=WAIT), str):
            self.got.append(number_in(item))


def test_fork_while_threads_wait_in_get_and_put() -> None:
    """The child uses both queues, and the parent's threads continue."""
    empty: st.Queue = st.Queue()
    full: st.Queue = st.Queue(1)
    full.put(message(0))
    got: list[int] = []
    threads = [
        threading.Thread(target=lambda: got.append(number_in(empty.get(timeout=WAIT)))),
        threading.Thread(target=full.put, args=(message(2),), kwargs={"timeout": WAIT}),
    ]
    for thread in threads:
        thread.start()

    def use_both() -> None:
        assert number_in(full.get(timeout=WAIT)) == 0  # the parent's thread puts then
        assert number_in(full.get(timeout=WAIT)) == 2
        full.put(message(3))
        empty.put(message(1))  # the parent's thread gets it

    in_child(use_both)
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive()
    assert got == [1]
    assert number_in(full.get(timeout=WAIT)) == 3
    assert empty.empty()
    assert full.empty()


@pytest.mark.timeout(180)
def test_forks_while_threads_put_and_get() -> None:
    """Each child puts a message of its own; none is lost, and none is received twice."""
    theirs = [(1 << 24) + i for i in range(FORKS)]
    with Threads() as threads:
        for number in theirs:
            in_child(lambda number=number: threads.messages.put(message(number), timeout=WAIT))
    assert sorted(threads.got) == threads.put + theirs
    assert [number for number in threads.got if number not in theirs] == threads.put


@pytest.mark.timeout(180)
@pytest.mark.parametrize("killed", [False, True], ids=["exit", "killed"])
def test_children_take_messages_while_threads_put_and_get(killed: bool) -> None:
    """The death of a child unlocks nothing that a thread of its parent has locked."""
    ours, theirs = os.pipe()

    def take_some() -> None:
        for _ in range(3):
            os.write(theirs, number_in(threads.messages.get(timeout=WAIT)).to_bytes(4, "little"))
        if killed:
            os.kill(os.getpid(), signal.SIGKILL)

    with Threads() as threads:
        for _ in range(FORKS):
            in_child(take_some, -signal.SIGKILL if killed else 0)
    os.close(theirs)
    with open(ours, "rb") as file:
        content = file.read()
    taken = [int.from_bytes(content[at : at + 4], "little") for at in range(0, len(content), 4)]
    assert len(taken) == 3 * FORKS
    assert sorted(threads.got + taken) == threads.put


class ForksWhenLoaded:
    """Loading it forks, and lets the child load the rest of the message first."""

    def __reduce__(self) -> tuple[Callable[[], str], tuple[()]]:
        return _fork_when_loaded, ()


def _fork_when_loaded() -> str:
    if (child := os.fork()) == 0:
        return "child"
    assert os.waitpid(child, 0)[1] == 0
    return "parent"


@pytest.mark.parametrize("redeliver", [False, True])
def test_message_that_forks_when_it_is_loaded_stays_the_parents(redeliver: bool) -> None:
    q: st.Queue = st.Queue(redeliver=redeliver)

    def take() -> None:
        q.put([ForksWhenLoaded(), st.full(3, 7)])
        assert q.get(timeout=WAIT)[1].tolist() == [7, 7, 7]

    in_child(take)


def test_put_without_waiting_succeeds_though_the_owner_of_the_lock_does_not_run_for_a_moment() -> None:
    """Regression: it raised queue.Full after 20 ms, so that a log lost records on a busy machine."""
    q = st.Queue()

    def put_and_stop() -> None:
        os.environ["SHMTENSOR_FAULT"] = "queue.put_count"
        os.environ["SHMTENSOR_FAULT_SIGNAL"] = str(int(signal.SIGSTOP))
        q.put(1)

    child = fork(put_and_stop)
    assert os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])
    threading.Timer(0.05, os.kill, (child, signal.SIGCONT)).start()
    q.put_nowait(2)
    assert os.waitpid(child, 0)[1] == 0
    assert [q.get_nowait(), q.get_nowait()] == [1, 2]


def put_slowly(q: st.Queue, begin: int, seconds: float) -> None:
    """Have the queue's lock for so long, in the C code of a signal handler; first write to a pipe."""

    @ctypes.CFUNCTYPE(None, ctypes.c_int)
    def pause(_: int) -> None:
        os.write(begin, b"x")
        time.sleep(seconds)

    ctypes.CDLL(None).signal(int(signal.SIGUSR1), pause)
    os.environ["SHMTENSOR_FAULT"] = "queue.put_count"
    os.environ["SHMTENSOR_FAULT_SIGNAL"] = str(int(signal.SIGUSR1))
    q.put(1)


@pytest.mark.thorough
def test_put_without_waiting_fails_only_if_the_owner_of_the_lock_is_stopped() -> None:
    """Regression: with 5 % of a processor and eight producers, it raised queue.Full after half a second."""
    q = st.Queue()
    begun, begin = os.pipe()
    for stops in (False, True):
        child = fork(lambda: put_slowly(q, begin, 0.7))
        os.read(begun, 1)
        if stops:
            os.kill(child, signal.SIGSTOP)
            with pytest.raises(queue.Full):
                q.put_nowait(2)
            os.kill(child, signal.SIGCONT)
        else:
            q.put_nowait(2)
        assert os.waitpid(child, 0)[1] == 0
    assert q.get_many() == [1, 2, 1]
    os.close(begun)
    os.close(begin)


@pytest.mark.thorough
def test_signal_ends_a_put_that_outlasts_the_owner_of_the_lock() -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    q = st.Queue()
    begun, begin = os.pipe()
    child = fork(lambda: put_slowly(q, begin, 60))
    os.read(begun, 1)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            q.put_nowait(2)
    finally:
        signal.signal(signal.SIGALRM, before)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    q.put_nowait(3)
    assert q.get_many() == [3]
    os.close(begun)
    os.close(begin)
