"""What programs use of the standard library's queues, beyond `put` and `get`."""

from __future__ import annotations

import importlib
import multiprocessing
import multiprocessing.queues
import pickle
import queue
import select
import threading
from multiprocessing.connection import wait

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import running

KINDS = ["Queue", "JoinableQueue", "SimpleQueue"]


@pytest.mark.parametrize("kind", KINDS)
def test_is_an_instance_of_the_standard_class(kind: str) -> None:
    made = getattr(mp, kind)()
    assert isinstance(made, getattr(multiprocessing.queues, kind))
    assert isinstance(made, st.Queue)


@pytest.mark.parametrize("kind", KINDS)
def test_ends(kind: str) -> None:
    made = getattr(mp, kind)()
    reader, writer = made._reader, made._writer
    assert not made._poll()
    assert not reader.poll(0.01)
    assert wait([reader], 0) == []
    writer.send([1, st.ones(2)])
    assert made._poll()
    assert reader.poll(None)
    assert wait([made], 0) == [made]
    assert select.select([reader], [], [], 0)[0] == [reader]
    number, tensor = reader.recv()
    assert (number, tensor.tolist()) == (1, [1, 1])
    assert wait([reader], 0) == []
    assert not reader.closed
    writer.close()
    assert reader.closed
    assert writer.closed
    with pytest.raises(ValueError, match="closed"):
        made.put(1)


def test_reading_end_of_a_queue_that_was_shut_down() -> None:
    made = mp.SimpleQueue()
    made.shutdown()
    with pytest.raises(EOFError):
        made._reader.recv()


def test_maxsize() -> None:
    for unlimited in (0, -1):
        made = mp.Queue(unlimited)
        assert made._maxsize == 0
        for i in range(100):
            made.put_nowait(i)
        assert made.qsize() == 100
        assert not made.full()
    small = mp.Queue(1)
    small.put(1)
    with pytest.raises(queue.Full):
        small.put(2, timeout=0.01)
    with pytest.raises(TypeError):
        mp.Queue("a")
    with pytest.raises(TypeError):
        mp.SimpleQueue(3)


@pytest.mark.parametrize("kind", ["multiprocessing", "shmtensor.multiprocessing"])
def test_negative_timeout_is_none_left(kind: str) -> None:
    made = importlib.import_module(kind).get_context("fork").Queue(1)
    with pytest.raises(queue.Empty):
        made.get(timeout=-0.5)
    made.put(1, timeout=-1)
    with pytest.raises(queue.Full):
        made.put(2, True, -1)
    assert made._poll(30)
    assert made.get(timeout=-1) == 1
    made.close()
    made.join_thread()


def test_close_and_threads_that_do_not_exist() -> None:
    made = mp.Queue()
    made.put(1)
    with pytest.raises(AssertionError):
        made.join_thread()
    made.cancel_join_thread()
    before = threading.active_count()
    made.put(2)
    assert threading.active_count() == before
    made.close()
    made.join_thread()
    for call in (made.get, made.get_nowait, lambda: made.put(1)):
        with pytest.raises(ValueError, match="closed"):
            call()
    with pytest.raises(OSError, match="is closed"):
        made.empty()


def test_errors_of_the_pickler_are_raised_by_put() -> None:
    made = mp.Queue()
    with pytest.raises(Exception, match="pickle"):
        made.put([st.ones(3), threading.Lock()])
    assert made.empty()


def consume(tasks, results) -> None:
    while (item := tasks.get()) is not None:
        results.put(item)
        tasks.task_done()
    tasks.task_done()


def test_goes_to_processes(start_method: str) -> None:
    context = mp.get_context(start_method)
    tasks, results = context.JoinableQueue(5), context.SimpleQueue()
    with running(context, consume, tasks, results):
        array = np.arange(100_000)
        for item in (1, "text", st.ones(3), [array, st.zeros(2)]):
            tasks.put(item, timeout=30)
        assert results.get() == 1
        assert results.get() == "text"
        assert results.get().tolist() == [1, 1, 1]
        received, tensor = results.get()
        assert (received == array).all()
        assert tensor.tolist() == [0, 0]
        tasks.put(None)
        tasks.join()


def test_goes_through_a_queue() -> None:
    first, second = mp.Queue(), mp.SimpleQueue()
    first.put(second)
    again = first.get()
    again.put(3)
    assert second.get() == 3
    with pytest.raises(RuntimeError, match="only be shared between processes through inheritance"):
        pickle.dumps(first)


class Plain(mp.queues.Queue):
    pass


def test_subclass_of_a_context_sends_what_its_workers_can_read(start_method: str) -> None:
    context = mp.get_context(start_method)
    assert Plain(2, ctx=context)._dumps is context.Queue()._dumps
