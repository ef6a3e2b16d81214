"""The end of a queue that redelivers: shutdown, join, and tasks that are done."""

from __future__ import annotations

import queue
import threading

import pytest

import shmtensor as st
from tests.helpers.live_resources import assert_no_leaks
from tests.helpers.redelivery import ITEMS, SECONDS, kill_a_consumer, start_consumer


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
