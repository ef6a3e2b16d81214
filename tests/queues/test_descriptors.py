"""Waiting for queues by their descriptors."""

from __future__ import annotations

import os
import queue
import select
import signal
import weakref
from multiprocessing.connection import wait

import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import fork, kill_manager_of, manager_pid, running, wait_until
from tests.helpers.live_resources import assert_no_leaks

SECONDS = 60


def is_readable(waited_for: object, seconds: float = 0) -> bool:
    return bool(select.select([waited_for], [], [], seconds)[0])


def wait_until_not_readable(q: st.Queue) -> None:
    """Try to get until the descriptor is not readable, which the first attempt achieves if no process puts.

    A process that has put an item may have the lock until it runs again: an attempt waits 0.1 s for it.
    """

    def is_settled() -> bool:
        if not is_readable(q):
            return True
        with pytest.raises(queue.Empty):
            q.get_nowait()
        return False

    wait_until(is_settled, what="the descriptor not to be readable")


def echo(requests: st.Queue, answers: st.Queue) -> None:
    """Answer as a process that waits by a descriptor only."""
    while True:
        assert wait([requests], SECONDS), "no request"
        try:
            while True:
                answers.put(requests.get_nowait())
        except queue.Empty:
            continue
        except st.ShutDown:
            return


def test_descriptor_is_readable_while_there_are_items(ctx) -> None:
    with assert_no_leaks():
        requests, answers = st.Queue(), st.Queue()
        process = ctx.Process(target=echo, args=(requests, answers))
        assert not is_readable(answers)
        process.start()
        for _ in range(50):
            requests.put(1)
            requests.put(st.ones(3))
            assert is_readable(answers, SECONDS)
            assert answers.get() == 1
            assert answers.get(timeout=SECONDS).tolist() == [1, 1, 1]
            wait_until_not_readable(answers)
        requests.shutdown()
        process.join(SECONDS)
        assert process.exitcode == 0
        process.close()
        del requests, answers


def put_one(q: mp.SimpleQueue) -> None:
    q.put(1)


def take_one(q: mp.SimpleQueue) -> None:
    assert q.get() == 1


def test_reader_is_ready_whenever_the_sentinel_of_the_producer_is(ctx) -> None:
    q = ctx.SimpleQueue()
    for _ in range(5):
        process = ctx.Process(target=put_one, args=(q,))
        process.start()
        process.join(SECONDS)
        assert wait([q._reader], 0) == [q._reader]
        assert q._reader.recv() == 1
        assert not q._reader.poll(0)


def test_descriptor_tells_the_truth_after_another_process_has_taken_the_item(ctx) -> None:
    q = ctx.SimpleQueue()
    assert not is_readable(q)
    q.put(1)
    assert is_readable(q)
    process = ctx.Process(target=take_one, args=(q,))
    process.start()
    process.join(SECONDS)
    assert process.exitcode == 0
    assert not is_readable(q)


@pytest.mark.parametrize("end", [int, os.abort], ids=["ends", "dies"])
def test_end_of_another_process_makes_no_descriptor_readable(ctx, end) -> None:
    q = ctx.SimpleQueue()
    assert not is_readable(q)
    process = ctx.Process(target=end)
    process.start()
    process.join(SECONDS)
    wait_until(lambda: st.stats()["processes"] == 1)
    assert not is_readable(q)


def test_queue_has_one_reader_and_is_freed_with_it() -> None:
    q = mp.Queue()
    reader = q._reader
    assert reader is q._reader
    q.put(1)
    assert q._reader in wait([q._reader], 0)
    gone = weakref.ref(q)
    del q, reader
    assert gone() is None


def test_descriptor_does_not_wait_for_the_manager() -> None:
    q = mp.SimpleQueue()
    assert not is_readable(q)
    manager = manager_pid(st.stats()["session"])
    os.kill(manager, signal.SIGSTOP)
    try:
        for number in range(3):
            q.put(number)
            assert is_readable(q)
            assert q.get() == number
            assert not is_readable(q)
    finally:
        os.kill(manager, signal.SIGCONT)


def test_descriptor_stays_readable_while_items_are_left() -> None:
    q = st.Queue()
    q.put_many(range(3))
    for number in range(3):
        assert is_readable(q, SECONDS)
        assert q.get() == number
    assert not is_readable(q)
    q.put_many(range(100))
    assert is_readable(q, SECONDS)
    assert q.get_many() == list(range(100))
    assert not is_readable(q)


def test_descriptor_of_room() -> None:
    q = st.Queue(2)
    room = q._fileno_of_room()
    assert is_readable(room, SECONDS)
    q.put_many("ab")
    assert not is_readable(room)
    with pytest.raises(queue.Full):
        q.put_nowait("c")
    assert not is_readable(room)
    q.get()
    assert is_readable(room, SECONDS)


@pytest.mark.parametrize("descriptor", [st.Queue.fileno, st.Queue._fileno_of_room])
def test_shutdown_makes_descriptors_readable(descriptor) -> None:
    q = st.Queue(1)
    number = descriptor(q)
    q.put(1)
    if descriptor is st.Queue.fileno:
        q.get()
    assert not is_readable(number)
    q.shutdown()
    for _ in range(3):
        assert is_readable(number, SECONDS)
        with pytest.raises(st.ShutDown):
            q.put(1)
        if descriptor is st.Queue.fileno:
            with pytest.raises(st.ShutDown):
                q.get()


def test_wait_for_queues_and_pipes() -> None:
    queues = [st.Queue() for _ in range(10)]
    one, other = mp.Pipe()
    with one, other:
        assert wait([*queues, one], 0) == []
        queues[7].put(1)
        assert wait([*queues, one], SECONDS) == [queues[7]]
        other.send(1)
        queues[7].get()
        assert wait([*queues, one], SECONDS) == [one]


def test_descriptor_survives_the_manager(ctx) -> None:
    requests, answers = st.Queue(), st.Queue()
    process = ctx.Process(target=echo, args=(requests, answers), daemon=True)
    process.start()
    descriptor = answers.fileno()
    poller = select.epoll()
    poller.register(descriptor, select.EPOLLIN)
    for round_number in range(3):
        requests.put(round_number)
        assert poller.poll(SECONDS)
        assert answers.get(timeout=SECONDS) == round_number
        kill_manager_of(st.stats()["session"])
        assert poller.poll(SECONDS), "the death is noticed"
        with pytest.raises(queue.Empty):
            answers.get_nowait()
        wait_until_not_readable(answers)
        assert not poller.poll(0)
    assert answers.fileno() == descriptor
    poller.close()
    requests.shutdown()
    process.join(SECONDS)
    assert process.exitcode == 0


def test_descriptor_survives_the_manager_beside_a_forked_child() -> None:
    """The child has the socket to the killed manager, which the parent replaces, open until it ends."""
    q = st.Queue()
    descriptor = q.fileno()
    ready, ended = os.pipe()
    child = fork(lambda: os.read(ready, 1))
    kill_manager_of(st.stats()["session"])
    assert is_readable(descriptor, SECONDS), "the death is noticed"
    with pytest.raises(queue.Empty):
        q.get_nowait()
    assert not is_readable(descriptor)
    q.put(1)
    assert is_readable(descriptor, SECONDS)
    os.write(ended, b"x")
    assert os.waitpid(child, 0)[1] == 0
    os.close(ready)
    os.close(ended)


def test_all_processes_that_watch_are_woken(ctx) -> None:
    requests, answers = st.Queue(), st.Queue()
    processes = [ctx.Process(target=echo, args=(requests, answers), daemon=True) for _ in range(3)]
    for process in processes:
        process.start()
    requests.put_many(range(300))
    assert sorted(answers.get(timeout=SECONDS) for _ in range(300)) == list(range(300))
    requests.shutdown()
    for process in processes:
        process.join(SECONDS)
        assert process.exitcode == 0


def test_forked_child_has_a_descriptor_of_its_own() -> None:
    q, answers = st.Queue(), st.Queue()
    descriptor = q.fileno()
    q.put("parent's")
    assert is_readable(descriptor, SECONDS)

    def child() -> None:
        with pytest.raises(queue.Empty):
            answers.get_nowait()
        assert q.get() == "parent's"
        assert not is_readable(q)
        q.put("child's")
        assert is_readable(q, SECONDS)
        answers.put("done")

    with running(mp.get_context("fork"), child) as process:
        assert answers.get(timeout=SECONDS) == "done"
    assert process.exitcode == 0
    assert q.fileno() == descriptor
    assert q.get() == "child's"
    assert not is_readable(q)
    q.put(1)
    assert is_readable(q, SECONDS)


def test_descriptors_are_closed_with_the_queue() -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    st.Queue().fileno()
    before = descriptors()
    for _ in range(3):
        q = st.Queue()
        assert descriptors() == before
        q.fileno()
        q._fileno_of_room()
        assert descriptors() > before
        del q
    assert descriptors() == before


def test_closed_queue_has_no_descriptor() -> None:
    q = st.Queue()
    q.close()
    with pytest.raises(ValueError, match="closed"):
        q.fileno()
