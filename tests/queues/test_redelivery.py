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

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import wait_until
from tests.helpers.live_resources import assert_no_leaks, live_resources

SECONDS = 60

ITEMS = {
    "small": lambda: 7,
    "text": lambda: "x" * 10_000,
    "tensor": lambda: st.full(100, 7),
    "list": lambda: [st.full(10, 7), 7, st.full(20, 7)],
    "array": lambda: np.full(100_000, 7),
    "pickle": lambda: {"a": st.full(5, 7), "b": [st.full(6, 7)]},
}


def take(q: st.Queue, count: int, ready) -> None:
    """Be a consumer that takes some items, completes all but the last, and is then killed."""
    kept = [q.get(timeout=SECONDS) for _ in range(count)]
    ready.put(len(kept))
    signal.pause()


def kill_after(work, q: st.Queue) -> None:
    """Run `work(q)` in a process that is killed afterwards."""

    def run() -> None:
        work(q)
        ready.put(True)
        signal.pause()

    before = st.stats()["processes"]
    ready = mp.SimpleQueue()
    worker = mp.get_context("fork").Process(target=run)
    worker.start()
    assert ready.get()
    worker.kill()
    worker.join(SECONDS)
    worker.close()
    ready.close()
    wait_until(lambda: st.stats()["processes"] <= before, what="the death to be noticed")


def start_consumer(q: st.Queue, count: int = 1, method: str | None = None):
    """Return a process that has taken so many items."""
    ready = mp.SimpleQueue()
    worker = mp.get_context(method).Process(target=take, args=(q, count, ready))
    worker.start()
    assert ready.get() == count
    ready.close()
    return worker


def kill_a_consumer(q: st.Queue, count: int = 1) -> None:
    """Return after the messages of the consumer were returned."""
    worker = start_consumer(q, count)
    before = q.qsize()
    worker.kill()
    worker.join(SECONDS)
    worker.close()
    wait_until(lambda: q.qsize() == before + 1, what="the message to be returned")


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


def another(q: st.Queue) -> st.Queue:
    """Return another object of the same queue."""
    again = mp.SimpleQueue()
    again.put(q)
    other = again.get()
    again.close()
    return other


def test_close_returns_the_items_of_the_thread() -> None:
    with assert_no_leaks():
        q = st.Queue(redeliver=True)
        other = another(q)
        q.put_many([[st.ones(2)], 2])
        q.get()
        with q:
            pass
        assert other.qsize() == 2
        assert other.get()[0].tolist() == [1, 1]
        assert other.get() == 2
        del q, other


def keeping(q: st.Queue, end: threading.Event) -> threading.Thread:
    """Return a thread that has received an item, and ends after the event."""
    got = threading.Event()

    def work() -> None:
        q.get(timeout=SECONDS)
        got.set()
        assert end.wait(SECONDS)

    thread = threading.Thread(target=work)
    thread.start()
    assert got.wait(SECONDS)
    return thread


@pytest.mark.parametrize("item", ITEMS)
def test_item_of_a_thread_that_has_ended_is_received_again(item: str) -> None:
    with assert_no_leaks():
        q = st.Queue(redeliver=True)
        q.put(ITEMS[item]())
        end = threading.Event()
        thread = keeping(q, end)
        q.shutdown()
        with pytest.raises(queue.Empty):
            q.get(timeout=0.02)
        end.set()
        assert repr(q.get(timeout=SECONDS)) == repr(ITEMS[item]())
        thread.join()
        del q, thread


def test_end_of_a_thread_wakes_other_processes() -> None:
    q, answers = st.Queue(redeliver=True), st.Queue()
    q.put("work")
    end = threading.Event()
    thread = keeping(q, end)
    worker = mp.get_context("fork").Process(target=lambda: answers.put(q.get(timeout=SECONDS)))
    worker.start()
    end.set()
    assert answers.get(timeout=SECONDS) == "work"
    thread.join()
    worker.join()


def test_end_of_a_thread_returns_what_it_received_through_any_object() -> None:
    queues = [st.Queue(redeliver=True) for _ in range(3)]
    for number, q in enumerate(queues):
        q.put_many([number] * 2)

    def work() -> None:
        for q in queues:
            q.get_many()
        del queues[1]
        other = another(queues[0])
        queues[0].put("more")
        assert other.get() == "more"

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    # In any order: the thread returns one after the other, perhaps after `join` has returned.
    first, last = queues
    assert sorted((first.get(timeout=SECONDS) for _ in range(3)), key=str) == [0, 0, "more"]
    assert [last.get(timeout=SECONDS) for _ in range(2)] == [2, 2]


@pytest.mark.parametrize("item", ITEMS)
def test_item_of_an_object_that_was_collected_is_received_again(item: str) -> None:
    with assert_no_leaks():
        q = st.Queue(redeliver=True)
        other = another(q)
        q.put(ITEMS[item]())
        assert repr(other.get()) == repr(ITEMS[item]())
        with pytest.raises(queue.Empty):
            q.get_nowait()
        del other
        gc.collect()
        assert repr(q.get_nowait()) == repr(ITEMS[item]())
        del q


def test_close_returns_the_items_of_all_threads() -> None:
    q = st.Queue(redeliver=True)
    other = another(q)
    q.put_many(["theirs", "mine", "other's"])
    end = threading.Event()
    thread = keeping(q, end)
    assert q.get() == "mine"
    assert other.get() == "other's"
    q.close()
    assert [other.get(timeout=SECONDS) for _ in range(2)] == ["theirs", "mine"]
    end.set()
    thread.join()
    with pytest.raises(queue.Empty):
        other.get_nowait()


def test_forked_child_returns_nothing_of_its_parents() -> None:
    q = st.Queue(redeliver=True)
    q.put("parent's")
    end = threading.Event()
    thread = keeping(q, end)

    def find_nothing() -> None:
        with pytest.raises(queue.Empty):
            q.get_nowait()

    def work() -> None:
        thread = threading.Thread(target=find_nothing)
        thread.start()
        thread.join()
        q.close()

    child = mp.get_context("fork").Process(target=work)
    child.start()
    child.join()
    assert child.exitcode == 0
    assert q.empty()
    end.set()
    thread.join()
    assert q.get(timeout=SECONDS) == "parent's"


def test_each_thread_completes_its_own_items() -> None:
    q = st.Queue(redeliver=True)
    other = another(q)
    q.put_many(["theirs", "mine", "mine too"])
    got = threading.Event()
    end = threading.Event()

    def work() -> None:
        q.get()
        got.set()
        end.wait(SECONDS)
        q.close()

    thread = threading.Thread(target=work)
    thread.start()
    assert got.wait(SECONDS)
    assert (q.get(), q.get()) == ("mine", "mine too")
    q.task_done()
    end.set()
    thread.join()
    assert other.get_many() == ["theirs"]


def test_shut_down_queue_waits_for_items_that_others_have() -> None:
    q = st.Queue(redeliver=True)
    q.put("work")
    worker = start_consumer(q)
    q.shutdown()
    with pytest.raises(queue.Empty):
        q.get(timeout=0.05)
    worker.kill()
    assert q.get(timeout=SECONDS) == "work"
    with pytest.raises(st.ShutDown):
        q.get(timeout=SECONDS)
    worker.join()


def test_shut_down_queue_ends_when_the_last_item_is_completed() -> None:
    q = st.Queue(redeliver=True)
    q.put_many([1, 2])
    assert q.get() == 1
    other_end = []
    started = threading.Event()

    def work() -> None:
        assert q.get(timeout=SECONDS) == 2
        started.set()
        with pytest.raises(st.ShutDown):
            q.get(timeout=SECONDS)  # waits for the other thread's item
        other_end.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    assert started.wait(SECONDS)
    q.shutdown()
    q.task_done()
    thread.join(SECONDS)
    assert other_end == [True]


def test_immediate_shutdown_discards_returned_items() -> None:
    with assert_no_leaks():
        q = st.Queue(redeliver=True)
        q.put_many([[st.ones(2)], st.ones(3), "x" * 5000, 4])
        kill_a_consumer(q)
        q.shutdown(immediate=True)
        with pytest.raises(st.ShutDown):
            q.get()
        q.join()
        del q


def test_join_waits_for_the_second_consumer() -> None:
    q = st.Queue(redeliver=True)
    q.put_many(range(3))
    kill_a_consumer(q)
    joined = threading.Thread(target=q.join)
    joined.start()
    for _ in range(3):
        q.get()
        assert joined.is_alive()
        q.task_done()
    joined.join(SECONDS)
    assert not joined.is_alive()
    with pytest.raises(ValueError, match="too many"):
        q.task_done()


@pytest.mark.parametrize("item", ITEMS)
def test_join_counts_what_get_completes(item: str) -> None:
    with assert_no_leaks():
        q = st.Queue(redeliver=True)
        q.put_many([ITEMS[item]() for _ in range(3)])
        joined = threading.Thread(target=q.join)
        joined.start()
        for _ in range(3):
            assert q.get() is not None
            assert joined.is_alive()
        with pytest.raises(queue.Empty):
            q.get_nowait()
        joined.join(SECONDS)
        assert not joined.is_alive()
        del q, joined


def test_join_waits_for_items_that_were_put_before_the_last_was_done() -> None:
    q = st.Queue(redeliver=True)
    q.put(0)
    joined = threading.Thread(target=q.join)
    joined.start()
    for number in range(200):
        assert q.get() == number
        q.put(number + 1)
        assert joined.is_alive()
    assert q.get() == 200
    q.task_done()
    joined.join(SECONDS)
    assert not joined.is_alive()


def test_task_done_without_an_item_is_refused() -> None:
    q = st.Queue(redeliver=True)
    q.put_many([1, 2])
    q.get_many()
    q.task_done()
    q.task_done()
    with pytest.raises(ValueError, match="too many times"):
        q.task_done()
    q.put_many([3, 4])
    q.get()
    q.get()  # completes the one before
    q.task_done()
    with pytest.raises(ValueError, match="this thread has no item"):
        q.task_done()
    q.join()


def test_join_ends_although_consumers_were_killed() -> None:
    q = st.Queue(redeliver=True)
    q.put_many(range(5))
    joined = threading.Thread(target=q.join)
    joined.start()
    for _ in range(3):
        kill_a_consumer(q, 2)  # it has completed one
    assert joined.is_alive()
    assert q.get_many() == [3, 4]
    q.task_done()
    assert joined.is_alive()
    q.task_done()
    joined.join(SECONDS)
    assert not joined.is_alive()


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
