"""The methods of a queue within one process."""

from __future__ import annotations

import asyncio
import copy
import pickle
import queue
import re
import threading
import time

import numpy as np
import pytest

import shmtensor as st
from tests.helpers.children import running
from tests.helpers.live_resources import assert_no_leaks


def test_size_is_exact() -> None:
    q = st.Queue(3)
    assert (q.qsize(), q.empty(), q.full()) == (0, True, False)
    q.put(1)
    assert (q.qsize(), q.empty(), q.full()) == (1, False, False)
    q.put_many([2, 3])
    assert (q.qsize(), q.empty(), q.full()) == (3, False, True)
    assert q.maxsize == 3


@pytest.mark.parametrize("put", [st.Queue.put_nowait, lambda q, item: q.put(item, block=False)])
def test_full_queue_refuses(put) -> None:
    with assert_no_leaks():
        q = st.Queue(1)
        q.put(1)
        with pytest.raises(queue.Full):
            put(q, [st.ones(3)])
        assert q.get() == 1
        del q


@pytest.mark.parametrize("get", [st.Queue.get_nowait, lambda q: q.get(False), lambda q: q.get(timeout=0.02)])
def test_empty_queue_refuses(get) -> None:
    with pytest.raises(queue.Empty):
        get(st.Queue())


def test_put_waits_for_room_until_the_timeout() -> None:
    q = st.Queue(1)
    q.put(1)
    with pytest.raises(queue.Full):
        q.put(2, True, 0.1)
    putter = threading.Thread(target=q.put, args=(3, True, 60))
    putter.start()
    putter.join(0.1)
    assert putter.is_alive(), "it waits"
    assert q.get() == 1
    putter.join(60)
    assert q.get_many() == [3]


def test_queue_grows_and_shrinks() -> None:
    with assert_no_leaks():
        q = st.Queue()
        with assert_no_leaks():
            for count in (10_000, 40, 5, 3_000):
                q.put_many(range(count))
                assert q.get_many() == list(range(count))
            q.put_many(range(5_000))  # until a ring begins again
            for number in range(5_000):
                assert q.get() == number
                q.put(number)
            q.get_many()
            q.put_many(range(20_000))
            q.get_many()
            for _ in range(40_000):
                q.put(None)
                q.get()
        del q


def test_get_many_returns_at_most_what_was_asked() -> None:
    q = st.Queue()
    q.put_many("abcde")
    assert q.get_many(2) == ["a", "b"]
    assert q.get_many(most=10) == ["c", "d", "e"]
    with pytest.raises(queue.Empty):
        q.get_many(block=False)
    with pytest.raises(ValueError, match="positive"):
        q.get_many(0)


def test_put_many_stops_at_the_timeout() -> None:
    q = st.Queue(2)
    with pytest.raises(queue.Full):
        q.put_many(range(5), timeout=0.05)
    assert q.get_many() == [0, 1]


@pytest.mark.parametrize("size", [-1, -(2**70)])
def test_negative_size_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="maxsize must be at least 0, not -"):
        st.Queue(size)


def test_numbers_of_any_size() -> None:
    with pytest.raises(ValueError, match="maxsize must be from 0 to 9223372036854775807, not 1180591620717"):
        st.Queue(2**70)
    q = st.Queue(np.uint8(3))
    assert q.maxsize == 3
    q.put(1)
    assert q.get_many(2**70) == [1]
    with pytest.raises(ValueError, match="most"):
        q.get_many(-(2**70))


@pytest.mark.parametrize("size", ["3", 1.5, None, np.float64(3)], ids=repr)
def test_size_that_is_no_integer_is_named(size) -> None:
    for make in (st.Queue, st.Broadcast):
        with pytest.raises(TypeError, match=re.escape(f"maxsize must be an integer, not {size!r}")):
            make(size)


def test_wrong_arguments_are_type_errors() -> None:
    q = st.Queue()
    with pytest.raises(TypeError, match="missing required argument: 'item'"):
        q.put()
    with pytest.raises(TypeError, match="unexpected keyword argument 'wait'"):
        q.put(1, wait=False)
    with pytest.raises(TypeError, match="multiple values"):
        q.put(1, item=2)
    with pytest.raises(ValueError, match="non-negative"):
        q.get(timeout=-1)
    with pytest.raises(ValueError, match="not a number"):
        q.get(timeout=float("nan"))
    assert q.empty()


def test_tasks_are_counted() -> None:
    q = st.Queue()
    with pytest.raises(ValueError, match="too many times"):
        q.task_done()
    q.join()
    q.put_many([1, 2])
    ended = threading.Event()
    waiter = threading.Thread(target=lambda: (q.join(), ended.set()))
    waiter.start()
    for _ in range(2):
        q.get()
        assert not ended.wait(0.02)
        q.task_done()
    assert ended.wait(30)
    waiter.join()


def test_shutdown_ends_put_and_later_get() -> None:
    q = st.Queue()
    q.put_many([1, 2])
    q.shutdown()
    assert q.is_shutdown
    with pytest.raises(st.ShutDown):
        q.put(3)
    assert list(q) == [1, 2]
    with pytest.raises(st.ShutDown):
        q.get_nowait()


def test_immediate_shutdown_discards() -> None:
    with assert_no_leaks():
        q = st.Queue()
        for _ in range(3):
            q.put_many([st.ones(100), [st.zeros(5)], np.ones(100_000), 1])
        q.shutdown(immediate=True)
        q.join()
        with pytest.raises(st.ShutDown):
            q.get()
        del q


@pytest.mark.parametrize("call", [lambda q: q.get(), lambda q: q.put(1), list])
def test_shutdown_wakes_who_waits(call) -> None:
    q = st.Queue(1)
    if getattr(call, "__code__", None) and "put" in call.__code__.co_names:
        q.put(0)
    results: list[object] = []

    def run() -> None:
        try:
            results.append(call(q))
        except st.ShutDown as error:
            results.append(type(error))

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.05)
    q.shutdown()
    thread.join(30)
    assert results in ([st.ShutDown], [[]])


def test_closed_queue_refuses() -> None:
    with st.Queue(2) as q:
        q.put_many([1, 2])
        q.get()
    assert q.closed
    for call in (q.get, q.empty, lambda: q.put(1), lambda: q.put_many([])):
        for kind in (ValueError, OSError):  # those of the standard library's `Queue` and `SimpleQueue`
            with pytest.raises(kind, match="closed"):
                call()
    assert "closed" in repr(q)


def test_closed_queue_still_counts() -> None:
    (through := st.Queue()).put(q := st.Queue(1))
    other = through.get()
    q.put(1)
    q.close()
    assert (q.qsize(), q.full()) == (1, True)
    other.get()
    assert (q.qsize(), q.full()) == (0, False)
    joined = threading.Thread(target=q.join)
    joined.start()
    q.task_done()
    joined.join()


class Named(st.Queue):
    def __init__(self, name: str) -> None:
        super().__init__(1)
        self.name = name

    def __getstate__(self):
        return super().__getstate__(), self.name

    def __setstate__(self, state) -> None:
        super().__setstate__(state[0])
        self.name = state[1]


def test_subclass_has_its_own_parameters_and_state() -> None:
    q, through = Named("a name"), st.Queue()
    assert q.maxsize == 1
    through.put(q)
    same = through.get()
    assert (type(same), same.name) == (Named, "a name")
    same.put(3)
    assert q.get() == 3


def test_subclass_without_init_raises() -> None:
    class Forgets(st.Queue):
        def __init__(self) -> None:
            pass

    made = Forgets()
    for use in (made.get, made.close, lambda: made.put(1), lambda: made.maxsize, made.qsize, made.fileno):
        with pytest.raises(RuntimeError, match=r"super\(\).__init__"):
            use()
    q = st.Queue()
    with pytest.raises(RuntimeError, match="twice"):
        q.__init__()


@pytest.mark.parametrize(
    "call",
    [
        lambda q: q.get(),
        lambda q: q.get(timeout=60),
        lambda q: q.get_many(),
        list,
        lambda q: (q.put(1), q.put(2)),
        lambda q: q.put_many(range(3)),
        lambda q: (q.put(1), q.join()),
        lambda q: asyncio.run(q.aget()),
        lambda q: asyncio.run(put_two(q)),
    ],
    ids=["get", "get_timeout", "get_many", "iter", "put", "put_many", "join", "aget", "aput"],
)
@pytest.mark.parametrize("redeliver", [False, True])
def test_close_ends_the_calls_of_other_threads(call, redeliver: bool) -> None:
    q = st.Queue(1, redeliver=redeliver)
    ended = queue.SimpleQueue()

    def run() -> None:
        with pytest.raises(ValueError, match="queue is closed"):
            call(q)
        ended.put(True)

    threads = [threading.Thread(target=run, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    q.close()
    for thread in threads:
        assert ended.get(timeout=30)
        thread.join()


async def put_two(q: st.Queue) -> None:
    await q.aput(1)
    await q.aput(2)


def test_close_leaves_other_objects_alone(ctx) -> None:
    q, answers = st.Queue(), st.Queue()
    with running(ctx, echo_one, q, answers):
        assert answers.get(timeout=30) == "started"
        waiter = threading.Thread(target=find_closed, args=(q,))
        waiter.start()
        (again := st.Queue()).put(q)
        other = again.get()
        q.close()
        waiter.join()
        other.put("still open")
        assert answers.get(timeout=30) == "still open"


def find_closed(q: st.Queue) -> None:
    with pytest.raises(ValueError, match="queue is closed"):
        q.get()


def echo_one(q: st.Queue, answers: st.Queue) -> None:
    answers.put("started")
    answers.put(q.get(timeout=30))


def test_repr_tells_size() -> None:
    q = st.Queue(7)
    q.put(1)
    assert repr(q) == "<Queue: 1 messages, maxsize 7>"


def test_plain_pickle_refuses() -> None:
    # It copies the bytes of a storage, and the copy of a queue would name tickets of the queue.
    for fail in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(RuntimeError, match="only be shared between processes"):
            fail(st.Queue())


@pytest.mark.parametrize("kind", [st.Queue, st.Broadcast, st.BroadcastReader])
def test_object_without_init_refuses_use(kind) -> None:
    with pytest.raises(RuntimeError, match="calls super"):
        kind.__new__(kind).close()


def test_one_class_cannot_be_a_queue_and_a_broadcast() -> None:
    with pytest.raises(TypeError, match="lay-out"):
        type("Both", (st.Queue, st.Broadcast), {})
