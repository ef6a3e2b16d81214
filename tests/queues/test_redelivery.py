"""A queue that gives the messages of killed consumers to others."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import queue
import select
import signal
import threading

import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import manager_pid, wait_until
from tests.helpers.live_resources import assert_no_leaks, live_resources
from tests.helpers.redelivery import ITEMS, SECONDS, kill_a_consumer, kill_after, start_consumer


@pytest.mark.parametrize("item", ITEMS)
def test_item_of_a_killed_consumer_is_received_again(item: str) -> None:
    with assert_no_leaks():
        q = st.Queue(redeliver=True)
        q.put(ITEMS[item]())
        q.put("after")
        kill_a_consumer(q)
        assert (q.qsize(), q.empty()) == (2, False)
        assert repr(q.get()) == repr(ITEMS[item]())
        assert q.get() == "after"
        with pytest.raises(queue.Empty):
            q.get_nowait()
        del q


@pytest.mark.parametrize("item", ITEMS)
def test_item_outlives_every_process_that_received_it(item: str) -> None:
    with assert_no_leaks():
        q = st.Queue(redeliver=True)
        q.put(ITEMS[item]())
        for _ in range(3):
            kill_a_consumer(q)
        assert repr(q.get()) == repr(ITEMS[item]())
        del q


@pytest.mark.parametrize("item", ITEMS)
def test_unread_and_kept_items_go_with_the_queue(item: str) -> None:
    with assert_no_leaks():
        q = st.Queue(redeliver=True)
        for _ in range(70):
            q.put(ITEMS[item]())
        kill_a_consumer(q, 3)
        q.get()
        del q
        gc.collect()


def test_completed_items_are_freed_without_the_manager() -> None:
    """A manager that is late would let a producer that waits for answers fill the memory."""
    q = st.Queue(redeliver=True)
    q.put((0, st.zeros(1)))
    before = st.stats()["bytes_reserved"]
    manager = manager_pid(st.stats()["session"])
    os.kill(manager, signal.SIGSTOP)
    try:
        for number in range(50):
            q.put((number, st.zeros(1 << 17)))
            q.get()
    finally:
        os.kill(manager, signal.SIGCONT)
    assert st.stats()["bytes_reserved"] <= before + 16 * (1 << 20)


class TakesAnother:
    """Its pickle takes an item of the queue."""

    queue: st.Queue

    def __reduce__(self):
        return _take, ()


def _take():
    return TakesAnother.queue.get()


def test_item_that_is_being_unpickled_is_kept_by_the_next_call() -> None:
    TakesAnother.queue = q = st.Queue(redeliver=True)
    q.put([TakesAnother(), st.ones(3)])
    q.put("next")
    first, tensor = q.get()
    assert (first, tensor.tolist()) == ("next", [1, 1, 1])
    del TakesAnother.queue


@pytest.mark.parametrize("item", ITEMS)
def test_completed_items_are_freed(item: str) -> None:
    q = st.Queue(redeliver=True)
    q.put(None)
    q.get()
    before = live_resources()
    for _ in range(100):
        q.put(ITEMS[item]())
        q.get()
    q.task_done()
    gc.collect()
    wait_until(lambda: live_resources() == before, what="the items to be freed")


def test_what_the_first_consumer_wrote_is_received() -> None:
    def write(q: st.Queue) -> None:
        q.get()[:] = 5

    q = st.Queue(redeliver=True)
    q.put(st.zeros(3))
    kill_after(write, q)
    assert q.get(timeout=SECONDS).tolist() == [5, 5, 5]


@pytest.mark.parametrize(
    "complete",
    [
        st.Queue.task_done,
        lambda q: q.get(),
        lambda q: q.get_many(),
        lambda q: asyncio.run(asyncio.wait_for(q.aget(), SECONDS)),
    ],
    ids=["task_done", "get", "get_many", "aget"],
)
def test_completed_item_is_not_received_again(complete) -> None:
    def work(q: st.Queue) -> None:
        assert q.get() == "completed"
        complete(q)

    q = st.Queue(redeliver=True)
    q.put_many(["completed", "kept"])
    kill_after(work, q)
    assert q.get(timeout=SECONDS) == "kept"
    with pytest.raises(queue.Empty):
        q.get_nowait()


def test_get_that_finds_nothing_completes() -> None:
    def work(q: st.Queue) -> None:
        q.get()
        with pytest.raises(queue.Empty):
            q.get(timeout=0.01)

    with assert_no_leaks():
        q = st.Queue(redeliver=True)
        q.put([st.ones(3)])
        kill_after(work, q)
        assert q.empty()
        del q


def test_returned_items_come_first_and_in_order() -> None:
    q = st.Queue(redeliver=True)
    q.put_many(range(6))
    workers = [start_consumer(q) for _ in range(3)]
    for worker in reversed(workers):
        worker.kill()
        worker.join()
    wait_until(lambda: q.qsize() == 6, what="the items to be returned")
    assert [q.get() for _ in range(6)] == list(range(6))


def test_returned_items_are_seen_from_outside() -> None:
    q = st.Queue(redeliver=True)
    q.put_many(range(4))
    before = st.stats()["queued"]
    kill_a_consumer(q, 2)
    assert st.stats()["queued"] == before - 1
    del q


def test_items_of_get_many_are_all_returned() -> None:
    def work(q: st.Queue) -> None:
        assert len(q.get_many()) == 64
        q.task_done()

    q = st.Queue(redeliver=True)
    q.put_many(range(100))
    kill_after(work, q)
    assert q.qsize() == 99
    assert [q.get() for _ in range(99)] == list(range(1, 100))


class NotUnpicklable:
    def __reduce__(self):
        return _fail, ()


def _fail() -> None:
    raise LookupError("as wanted")


def test_item_of_get_many_that_cannot_be_unpickled_stays_in_the_queue() -> None:
    with assert_no_leaks():
        q = st.Queue(redeliver=True)
        tensor = st.full(4, 9)
        q.put_many([1, tensor, NotUnpicklable(), 3])
        first, second = q.get_many()
        assert (first, second.tolist()) == (1, [9, 9, 9, 9])
        assert q.qsize() == 2
        with pytest.raises(LookupError):
            q.get_many()
        assert q.get() == 3
        with pytest.raises(queue.Empty):
            q.get_nowait()
        del q, tensor, second


def test_descriptor_becomes_readable_when_an_item_is_returned() -> None:
    q = st.Queue(redeliver=True)
    q.put("work")
    worker = start_consumer(q)
    descriptor = q.fileno()
    with pytest.raises(queue.Empty):
        q.get_nowait()
    worker.kill()
    assert select.select([descriptor], [], [], SECONDS)[0] == [descriptor]
    assert asyncio.run(asyncio.wait_for(q.aget(), SECONDS)) == "work"
    worker.join()


def test_descriptor_becomes_readable_when_the_last_item_is_completed() -> None:
    q = st.Queue(redeliver=True)
    q.put("work")
    descriptor = q.fileno()
    assert q.get() == "work"
    attempts = queue.SimpleQueue()

    def attempt_until_the_end() -> None:
        while True:
            with contextlib.suppress(queue.Empty):
                q.get_nowait()
            attempts.put(True)
            assert select.select([descriptor], [], [], SECONDS)[0] == [descriptor]

    def wait_for_the_end() -> None:
        with pytest.raises(st.ShutDown):
            attempt_until_the_end()

    waiter = threading.Thread(target=wait_for_the_end)
    waiter.start()
    assert attempts.get(timeout=SECONDS)
    q.shutdown()
    assert attempts.get(timeout=SECONDS)  # this thread has the last item
    q.task_done()
    waiter.join(SECONDS)
    assert not waiter.is_alive()


def test_consumer_waits_while_the_most_items_are_with_consumers() -> None:
    most, each = 1024, 64
    q = st.Queue(redeliver=True)
    q.put_many(range(most + 1))
    counts = queue.SimpleQueue()
    one_is_done, end = threading.Event(), threading.Event()

    def keep() -> None:
        counts.put(len(q.get_many()))
        one_is_done.wait(SECONDS)
        q.task_done()
        end.wait(SECONDS)

    keepers = [threading.Thread(target=keep) for _ in range(most // each)]
    for keeper in keepers:
        keeper.start()
        assert counts.get(timeout=SECONDS) == each
    assert q.qsize() == 1
    with pytest.raises(queue.Empty):
        q.get(timeout=0.05)
    threading.Timer(0.05, one_is_done.set).start()
    assert q.get(timeout=SECONDS) == most
    end.set()
    for keeper in keepers:
        keeper.join()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver", "server"])
def test_redelivering_queue_is_one_in_every_process(method: str) -> None:
    q = st.Queue(2, redeliver=True)
    assert (q.redeliver, q.maxsize) == (True, 2)
    assert not st.Queue().redeliver
    q.put("again")
    worker = start_consumer(q, 1, method)
    worker.kill()
    worker.join()
    assert q.get(timeout=SECONDS) == "again"


def test_forked_child_has_none_of_its_parents_items() -> None:
    q = st.Queue(redeliver=True)
    q.put_many(["parent's", "child's"])
    assert q.get() == "parent's"

    def work() -> None:
        assert q.get() == "child's"
        q.task_done()
        with pytest.raises(queue.Empty):
            q.get_nowait()

    child = mp.get_context("fork").Process(target=work)
    child.start()
    child.join()
    assert child.exitcode == 0
    assert q.qsize() == 0
    with pytest.raises(queue.Empty):
        q.get_nowait()


def end(q: st.Queue, how: str) -> None:
    q.get()
    if how == "exit":
        os._exit(0)
    if how == "error":
        raise SystemExit(3)


@pytest.mark.parametrize("how", ["return", "exit", "error"])
def test_item_of_a_process_that_has_ended_is_received_again(how: str) -> None:
    q = st.Queue(redeliver=True)
    q.put([st.ones(3)])
    worker = mp.Process(target=end, args=(q, how))
    worker.start()
    worker.join()
    assert q.get(timeout=SECONDS)[0].tolist() == [1, 1, 1]


def test_option_has_a_name() -> None:
    with pytest.raises(TypeError, match="positional argument"):
        st.Queue(0, True)
