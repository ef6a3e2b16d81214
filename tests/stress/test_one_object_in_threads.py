"""Methods of one object that several threads call simultaneously. The leak guard checks what remains."""

from __future__ import annotations

import pickle
import queue
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import chain
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.threads import DEADLINE, run_together

THREADS = 4
STEPS = 300
NUMBERS = np.arange(1000)
Found = list[tuple[int, int]]


def items_of(thread: int) -> list[tuple[int, int, st.Tensor]]:
    return [(thread, step, st.full(3, step)) for step in range(STEPS)]


def note(item: Any, found: Found) -> None:
    thread, step, tensor = item
    assert tensor.tolist() == [step] * 3
    found.append((thread, step))


def put_all(q: Any, thread: int) -> None:
    # Without `put_nowait`: it raises Full if the thread that has the lock does not run for 20 ms.
    put = [q.put, lambda item: q.put_many([item]), lambda item: q.put(item, True, DEADLINE)]
    for item in items_of(thread):
        put[thread % len(put)](item)


def get_all(q: Any, found: Found) -> None:
    while len(found) < STEPS:
        if len(found) % 2:
            note(q.get(timeout=DEADLINE), found)
        else:
            for item in q.get_many(min(5, STEPS - len(found)), timeout=DEADLINE):
                note(item, found)
        q.task_done()


def ask_queue(q: Any) -> None:
    for _ in range(STEPS):
        assert q.qsize() <= THREADS * STEPS
        assert (q.maxsize, q.closed, q.is_shutdown, q.full()) == (0, False, False, False)
        assert isinstance(q.empty(), bool)
        assert "messages" in repr(q)
        assert q.fileno() >= 0


def assert_each_once(found: list[Found]) -> None:
    expected = [(thread, step) for thread in range(THREADS) for step in range(STEPS)]
    assert Counter(chain(*found)) == Counter(expected)


def test_threads_put_and_get_in_one_queue() -> None:
    q: st.Queue = st.Queue()
    found: list[Found] = [[] for _ in range(THREADS)]
    putters: list[Callable[[], None]] = [partial(put_all, q, thread) for thread in range(THREADS)]
    getters = [partial(get_all, q, of_one) for of_one in found]
    run_together(*putters, *getters, partial(ask_queue, q))
    assert q.empty()
    assert_each_once(found)


@pytest.mark.parametrize("make", [st.Queue, mp.JoinableQueue])
def test_threads_use_a_full_queue_until_it_is_shut_down(make) -> None:
    def put(thread: int) -> None:
        for item in items_of(thread):
            q.put(item, timeout=DEADLINE)

    def get(of_one: Found) -> None:
        with suppress(st.ShutDown):
            while True:
                note(q.get(timeout=DEADLINE), of_one)
                q.task_done()

    def finish() -> None:
        run_together(*(partial(put, thread) for thread in range(THREADS)))
        q.join()
        q.shutdown()

    q = make(3)
    found: list[Found] = [[] for _ in range(THREADS)]
    run_together(*(partial(get, of_one) for of_one in found), finish)
    assert_each_once(found)


def test_threads_close_one_queue_that_others_use() -> None:
    def use(q: st.Queue) -> None:
        def put_and_get() -> None:
            while True:
                q.put(1)
                q.get(timeout=DEADLINE)  # not `get_nowait`: see `put_all`

        with pytest.raises(ValueError, match="closed"):
            put_and_get()

    for _ in range(20):
        q: st.Queue = st.Queue()
        run_together(partial(use, q), q.close, q.close)


def read_until_shutdown(reader: Any, found: Found) -> None:
    for item in reader:
        found.append(tuple(item.tolist()))
        assert (reader.missed, reader.closed) == (0, False)
        assert reader.lag() <= 10


def test_threads_use_one_broadcast_and_one_reader() -> None:
    """Each item arrives once at the shared reader, and at the reader of each thread."""

    def put(thread: int) -> None:
        for step in range(STEPS):
            b.put(st.asarray([thread, step]), timeout=DEADLINE)
            assert b.lag() <= 10
            assert "Broadcast" in repr(b)

    def finish() -> None:
        run_together(*(partial(put, thread) for thread in range(THREADS)))
        b.shutdown()

    b: st.Broadcast = st.Broadcast(10)
    shared, own = b.reader(), b.reader()
    of_shared: list[Found] = [[] for _ in range(THREADS)]
    of_own: Found = []
    run_together(
        finish,
        *(partial(read_until_shutdown, shared, of_one) for of_one in of_shared),
        partial(read_until_shutdown, own, of_own),
    )
    assert_each_once(of_shared)
    assert_each_once([of_own])


def test_threads_close_one_reader_that_others_wait_for() -> None:
    def get(reader: Any) -> None:
        def get_all() -> None:
            while True:
                reader.get(timeout=DEADLINE)

        with pytest.raises(ValueError, match="closed"):
            get_all()

    def put() -> None:
        with suppress(queue.Full):
            for _ in range(10):
                b.put(st.ones(1), block=False)

    b: st.Broadcast = st.Broadcast(20)
    for _ in range(20):
        reader = b.reader()
        run_together(partial(get, reader), partial(get, reader), put, reader.close, reader.close)
        assert b.readers == 0


def sent(value: Any) -> Any:
    return pickle.loads(ForkingPickler.dumps(value))


def use_tensor(tensor: st.Tensor) -> None:
    for step in range(STEPS):
        assert (tensor.shape, tensor.strides, tensor.size, len(tensor)) == ((1000,), (8,), 1000, 1000)
        assert int(tensor[step]) == step
        assert (tensor[step:].numpy() == NUMBERS[step:]).all()
        assert (tensor + 1)[step] == step + 1
        assert tensor.reshape(10, 100).T.shape == (100, 10)
        assert sent(tensor).storage() is tensor.storage()
        assert memoryview(tensor)[step] == step
        tensor[step] = step


def use_list(shared: st.SharedList) -> None:
    for step in range(STEPS):
        assert shared[step % 100] == {"id": step % 100}
        assert [item["id"] for item in shared[step % 90 : step % 90 + 5]] == [
            *range(step % 90, step % 90 + 5)
        ]
        assert shared[[3, -1]][1] == {"id": 99}
        assert len(sent(shared)) == 100


def use_dict(shared: st.SharedDict) -> None:
    for step in range(STEPS):
        key = str(step % 50)
        assert shared[key] == step % 50
        assert key in shared["inner"]
        assert (shared["inner"][key] == NUMBERS[:5]).all()
        assert shared.get("absent") is None
        assert len(sent(shared)) == 51


@pytest.mark.parametrize(
    ("make", "use"),
    [
        (lambda: st.asarray(NUMBERS), use_tensor),
        (lambda: st.SharedList({"id": number} for number in range(100)), use_list),
        (
            lambda: st.SharedDict(
                {str(key): key for key in range(50)} | {"inner": {str(key): NUMBERS[:5] for key in range(50)}}
            ),
            use_dict,
        ),
    ],
    ids=["tensor", "list", "dict"],
)
def test_threads_use_one_object(make, use) -> None:
    run_together(*[partial(use, make())] * THREADS)
