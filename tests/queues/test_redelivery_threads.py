"""A queue that redelivers, within a process: threads and objects that end return what they received."""

from __future__ import annotations

import gc
import queue
import threading

import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import running
from tests.helpers.live_resources import assert_no_leaks
from tests.helpers.redelivery import ITEMS, SECONDS


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
    with running(mp.get_context("fork"), lambda: answers.put(q.get(timeout=SECONDS))):
        end.set()
        assert answers.get(timeout=SECONDS) == "work"
        thread.join()


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
