"""A queue between processes."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import output, run_python, running, wait_until
from tests.helpers.live_resources import assert_no_leaks

SECONDS = 60


def answer(requests: st.Queue, answers: st.Queue) -> None:
    for item in requests:
        if isinstance(item, st.Tensor):
            item += 1
        answers.put(item)
    answers.shutdown()


def test_items_go_to_a_process_and_back(ctx) -> None:
    with assert_no_leaks():
        requests, answers = st.Queue(), st.Queue(4)
        with running(ctx, answer, requests, answers) as worker:
            tensor = st.zeros(5)
            requests.put(tensor)
            assert answers.get(timeout=SECONDS).storage() is tensor.storage()
            assert tensor.tolist() == [1] * 5
            for item in (None, "text", [1, tensor], np.arange(50_000), b"b" * 5000):
                requests.put(item)
                assert repr(answers.get(timeout=SECONDS)) == repr(item)
            requests.shutdown()
            with pytest.raises(st.ShutDown, match=r"^the queue was shut down$"):
                answers.get(timeout=SECONDS)
        assert worker.exitcode == 0
        del requests, answers, tensor, item


@pytest.mark.parametrize("carrier", [mp.Queue, mp.SimpleQueue, st.Queue])
def test_queue_travels_through_queues(carrier) -> None:
    q, through = st.Queue(), carrier()
    q.put(1)
    through.put([q])
    (again,) = through.get()
    assert again.get() == 1
    again.put(2)
    assert q.get() == 2
    if hasattr(through, "close"):
        through.close()


def test_queue_travels_through_a_pipe() -> None:
    q = st.Queue()
    one, other = mp.Pipe()
    with one, other:
        one.send(q)
        other.recv().put("here")
    assert q.get() == "here"


def test_queue_can_be_published() -> None:
    q = st.Queue()
    st.publish("test-queue", q)
    try:
        st.attach("test-queue").put("found")
        assert q.get() == "found"
    finally:
        st.unpublish("test-queue")


def test_queue_reaches_a_running_process() -> None:
    requests, answers = st.Queue(), st.Queue()
    with running(mp.get_context("server"), answer, requests, answers):
        late: st.Queue[str] = st.Queue()
        requests.put(late)
        answers.get(timeout=SECONDS).put("late")
        assert late.get() == "late"
        requests.shutdown()


def produce(q: st.Queue, number: int, count: int) -> None:
    for item in range(count):
        q.put((number, item, b"x" * (item % 200)))


def consume(q: st.Queue, results: st.Queue) -> None:
    results.put([(number, item) for number, item, _ in q])


@pytest.mark.thorough
@pytest.mark.parametrize("limit", [0, 1, 5])
def test_each_item_arrives_once_and_in_order(limit: int) -> None:
    producers, consumers, count = 3, 3, 1000
    context = mp.get_context("server")
    q, results = st.Queue(limit), st.Queue()
    putting = [context.Process(target=produce, args=(q, n, count)) for n in range(producers)]
    getting = [context.Process(target=consume, args=(q, results)) for _ in range(consumers)]
    for process in getting + putting:
        process.start()
    for process in putting:
        process.join(SECONDS)
    q.shutdown()
    everything: list[tuple[int, int]] = []
    for _ in getting:
        mine = results.get(timeout=SECONDS)
        for number in range(producers):
            items = [item for sender, item in mine if sender == number]
            assert items == sorted(items)
        everything += mine
    assert sorted(everything) == [(n, item) for n in range(producers) for item in range(count)]
    for process in getting + putting:
        process.join(SECONDS)
        assert process.exitcode == 0
        process.close()


def test_interrupt_ends_a_wait() -> None:
    program = """
        import os, signal, threading, time
        import shmtensor as st

        q = st.Queue(1)
        interrupt = 0.3, os.kill, (os.getpid(), signal.SIGINT)
        try:
            threading.Timer(*interrupt).start()
            q.get()
        except KeyboardInterrupt:
            pass
        q.put(1)
        try:
            threading.Timer(*interrupt).start()
            q.put(2)
        except KeyboardInterrupt:
            pass
        assert q.get_many() == [1]
    """
    output(run_python(program))


def put_and_wait(q: st.Queue, item: object, end: st.Queue) -> None:
    q.put(item)
    end.get(timeout=SECONDS)


def test_a_call_without_time_takes_a_message_that_must_be_mapped(ctx) -> None:
    q, end = st.Queue(), st.Queue()
    with running(ctx, put_and_wait, q, st.ones(3), end):
        wait_until(lambda: q.qsize() == 1, SECONDS)
        other = ctx.Process(target=take_without_time, args=(q, end))
        other.start()
        other.join(SECONDS)
        assert other.exitcode == 0
        end.put(None)


def take_without_time(q: st.Queue, end: st.Queue) -> None:
    """Get, without time, what a living process has put from its own arena, which is not mapped here."""
    assert not end.qsize()
    assert q.get(timeout=0).tolist() == [1, 1, 1]


def test_a_call_without_time_puts_into_a_queue_that_must_grow() -> None:
    q: st.Queue[int] = st.Queue()
    for number in range(1000):
        q.put(number, timeout=0)
    q.put_many(range(1000, 300_000), block=False)
    assert q.get_many() == list(range(300_000))


def test_handler_runs_during_a_wait_that_goes_on() -> None:
    q: st.Queue[int] = st.Queue()
    calls: list[int] = []

    def interrupt_and_put() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        wait_until(lambda: calls == [1], what="the handler, which the waiting thread runs")
        q.put(5)

    before = signal.signal(signal.SIGUSR1, lambda *_: calls.append(1))
    try:
        threading.Timer(0.1, interrupt_and_put).start()
        assert q.get(timeout=2 * SECONDS) == 5
        assert calls == [1]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_other_threads_run_while_one_waits() -> None:
    q: st.Queue[int] = st.Queue()
    waiter = threading.Thread(target=q.get)
    waiter.start()
    time.sleep(0.01)
    assert sum(range(1000)) == 499500
    q.put(1)
    waiter.join(SECONDS)
    assert not waiter.is_alive()


def test_forked_child_uses_the_queue() -> None:
    q: st.Queue[object] = st.Queue()
    q.put(st.full(3, 4))
    if (child := os.fork()) == 0:
        try:
            got = q.get(timeout=SECONDS)
            q.put(float(got.numpy().sum()))
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert q.get_nowait() == 12.0


def test_stopped_process_loses_no_message() -> None:
    requests, answers = st.Queue(), st.Queue()
    with running(mp.get_context("server"), answer, requests, answers) as worker:
        requests.put(0)
        assert answers.get(timeout=SECONDS) == 0
        os.kill(worker.pid, signal.SIGSTOP)
        requests.put_many(range(100))
        time.sleep(0.2)
        os.kill(worker.pid, signal.SIGCONT)
        assert [answers.get(timeout=SECONDS) for _ in range(100)] == list(range(100))
        requests.shutdown()


def test_queue_uses_no_descriptor() -> None:
    st.Queue().put(1)
    before = len(os.listdir("/proc/self/fd"))
    threads = threading.active_count()
    queues = [st.Queue() for _ in range(1000)]
    for number, q in enumerate(queues):
        q.put(number)
    assert [q.get() for q in queues] == list(range(1000))
    assert len(os.listdir("/proc/self/fd")) == before
    assert threading.active_count() <= threads  # another test may have left one


def test_handle_of_a_queue_is_short() -> None:
    q = st.Queue()
    handle = ForkingPickler.dumps(q)
    assert len(handle) < 300
    pickle.loads(handle).put(1)
    assert q.get() == 1
