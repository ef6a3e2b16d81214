"""Forks of a process whose other threads wait in a queue, or use it."""

from __future__ import annotations

import os
import signal
import threading

import pytest

import shmtensor as st
from tests.helpers.numbered_messages import message, number_in

WAIT = 30.0
FORKS = 20


def in_child(work, expected: int = 0) -> None:
    """Run `work` in a forked child, and check its exit code."""
    if (pid := os.fork()) == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == expected


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
    messages: st.Queue = st.Queue(50)
    stop = threading.Event()
    put, got = [], []

    def produce() -> None:
        for number in range(1 << 20):
            if stop.is_set():
                break
            messages.put(message(number), timeout=WAIT)
            put.append(number)

    def consume() -> None:
        while not isinstance(item := messages.get(timeout=WAIT), str):
            got.append(number_in(item))

    threads = [threading.Thread(target=work) for work in (produce, consume)]
    for thread in threads:
        thread.start()
    for i in range(FORKS):
        in_child(lambda i=i: messages.put(message((1 << 24) + i), timeout=WAIT))
    stop.set()
    threads[0].join(WAIT)
    messages.put("end", timeout=WAIT)
    threads[1].join(WAIT)
    assert not any(thread.is_alive() for thread in threads)
    assert sorted(got) == put + [(1 << 24) + i for i in range(FORKS)]
    assert [number for number in got if number < 1 << 24] == put


@pytest.mark.timeout(180)
@pytest.mark.parametrize("killed", [False, True], ids=["exit", "killed"])
def test_children_take_messages_while_threads_put_and_get(killed: bool) -> None:
    """The death of a child unlocks nothing that a thread of its parent has locked."""
    messages: st.Queue = st.Queue(50)
    stop = threading.Event()
    put: list[int] = []
    got: list[int] = []
    ours, theirs = os.pipe()

    def produce() -> None:
        for number in range(1 << 20):
            if stop.is_set():
                break
            messages.put(message(number), timeout=WAIT)
            put.append(number)

    def consume() -> None:
        while not isinstance(item := messages.get(timeout=WAIT), str):
            got.append(number_in(item))

    def take_some() -> None:
        for _ in range(3):
            os.write(theirs, number_in(messages.get(timeout=WAIT)).to_bytes(4, "little"))
        if killed:
            os.kill(os.getpid(), signal.SIGKILL)

    threads = [threading.Thread(target=work) for work in (produce, consume)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(FORKS):
            in_child(take_some, -signal.SIGKILL if killed else 0)
    finally:
        stop.set()
        threads[0].join(WAIT)
        messages.put("end", timeout=WAIT)
        threads[1].join(WAIT)
    assert not any(thread.is_alive() for thread in threads)
    os.close(theirs)
    with open(ours, "rb") as file:
        content = file.read()
    taken = [int.from_bytes(content[at : at + 4], "little") for at in range(0, len(content), 4)]
    assert len(taken) == 3 * FORKS
    assert sorted(got + taken) == put
