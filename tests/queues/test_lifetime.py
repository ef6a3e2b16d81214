"""Unread messages belong to their queue."""

from __future__ import annotations

import gc
import os
import signal

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import importing_tests, output, run_python, running
from tests.helpers.live_resources import assert_no_leaks, live_resources

ITEMS = {
    "tensor": lambda: st.ones(100),
    "list": lambda: [st.ones(10), st.ones(20)],
    "array": lambda: np.ones(100_000),
    "bytes": lambda: b"x" * 10_000,
    "small": lambda: 1,
}


@pytest.mark.parametrize("count", [1, 31, 32, 500])
@pytest.mark.parametrize("item", ITEMS)
def test_unread_messages_go_with_the_queue(item: str, count: int) -> None:
    with assert_no_leaks():
        q = st.Queue()
        for _ in range(count):
            q.put(ITEMS[item]())
        del q


def test_unread_messages_are_kept_by_gc() -> None:
    q = st.Queue()
    q.put(st.full(3, 8))
    gc.collect()
    st.gc(older_than=0)
    assert q.get().tolist() == [8] * 3


class CountsBlocks:
    """An item that arrives as the number of live blocks when it is unpickled."""

    def __reduce__(self):
        return _count_blocks, ()


def _count_blocks() -> int:
    return st.stats()["blocks"]


def test_loop_over_a_queue_keeps_no_item_while_it_waits() -> None:
    q = st.Queue()
    q.put(CountsBlocks())
    expected = q.get()
    q.put(st.ones(10))
    q.put(CountsBlocks())
    items = iter(q)
    item = next(items)
    del item
    assert next(items) == expected


def test_queue_in_an_unread_message_lives() -> None:
    with assert_no_leaks():
        outer, inner = st.Queue(), st.Queue()
        inner.put(st.full(2, 6))
        outer.put(inner)
        outer.put([inner])
        del inner
        gc.collect()
        assert outer.get().get().tolist() == [6] * 2
        del outer


def test_queue_that_was_put_into_itself_is_freed_after_the_get() -> None:
    before = live_resources()
    q = st.Queue()
    q.put(q)
    again = q.get()
    del q, again
    assert live_resources() == before


def put_and_die(q: st.Queue, item: str) -> None:
    for _ in range(100):
        q.put(ITEMS[item]())
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("item", ITEMS)
def test_messages_outlive_their_producer(item: str) -> None:
    with assert_no_leaks():
        q = st.Queue()
        process = mp.get_context("server").Process(target=put_and_die, args=(q, item))
        process.start()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
        assert q.qsize() == 100
        for got in q.get_many():
            np.testing.assert_array_equal(
                np.asarray(got[0] if item == "list" else got).ravel()[:1], got_first(item)
            )
        del q, got
        process.close()


@pytest.mark.thorough
def test_messages_of_several_dead_producers_are_read_by_a_new_process() -> None:
    # The ring and the messages lie in arenas that only the manager has open.
    with assert_no_leaks():
        q, results = st.Queue(), st.Queue()
        context = mp.get_context("server")
        for item in ("array", "list", "bytes"):
            producer = context.Process(target=put_and_die, args=(q, item))
            producer.start()
            producer.join(60)
            producer.close()
        q.shutdown()
        with running(context, count_items, q, results):
            assert results.get(timeout=60) == 300
        del q, results


def count_items(q: st.Queue, results: st.Queue) -> None:
    results.put(sum(1 for _ in q))


def got_first(item: str) -> list[object]:
    value = ITEMS[item]()
    return list(np.asarray(value[0] if item == "list" else value).ravel()[:1])


@pytest.mark.parametrize("item", ITEMS)
def test_queue_that_only_the_dead_had_is_freed(item: str) -> None:
    # Each process starts a session of its own, of which the last one looks.
    program = f"""
        import os, signal
        import shmtensor as st
        from tests.helpers.children import wait_until
        from tests.queues.test_lifetime import ITEMS, live_resources

        keeper = st.ones(1)
        before = live_resources()
        if (child := os.fork()) == 0:
            q = st.Queue()
            for _ in range(50):
                q.put(ITEMS[{item!r}]())
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        wait_until(lambda: live_resources() == before, what=lambda: f"{{before}}, not {{live_resources()}}")
    """
    output(run_python(program, env=importing_tests()))
