"""With events, the default stream waits for work of another process, which is killed amid that."""

from __future__ import annotations

import functools
import gc
import logging.handlers
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import shmtensor as st
from shmtensor import _core
from shmtensor._cuda import events as cuda_events
from tests.cuda import device, workers
from tests.cuda.harness import case
from tests.cuda.test_events import Work
from tests.cuda.test_graph_captures import BLOCKING, capture, make_stream
from tests.cuda.workers import Pair

KEPT = []  # received tensors: a release after the kill is reported


def send_at_work(inbox: Any, outbox: Any) -> None:
    """Send a tensor amid work that never ends, and wait."""
    tensor = inbox.get()
    st.cuda.set_sync("event")
    Work(tensor, f"latch{os.getpid()}")
    outbox.put(tensor)
    inbox.get()


def expect_end_of_maker(act: Callable[[], Any], pid: int) -> None:
    with pytest.raises(st.ProducerGone, match=f"work of process {pid}, which has ended"):
        act()


@contextmanager
def waiting_for(pair: Pair, act: Callable[[], Any]) -> Iterator[None]:
    """Call a function in a thread during the block, after which it must report the end of the process."""
    results: list[Any] = []

    def wait() -> None:
        try:
            results.append(act())
        except st.ProducerGone as error:
            results.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive(), "it does not wait for the work"
    yield
    thread.join(workers.TIMEOUT)
    assert not thread.is_alive(), "it waits on"
    assert f"work of process {pair.process.pid}, which has ended" in str(results)


@case
def test_waits_for_the_work_of_a_killed_process_are_reported() -> None:
    """Regression: each wait for the device hung, also the one in the release of a tensor."""
    tensor = st.zeros(2, "u1", device="cuda")
    other = st.ones(2, "u1", device="cuda")
    other.data_ptr()
    pair = Pair(send_at_work)
    pair.put(tensor)
    received = pair.get()
    with waiting_for(pair, st.cuda.synchronize):
        pair.kill()
    answers = Pair(workers.answer)
    for act in (received.cpu, received.clone, other.cpu, functools.partial(answers.put, other)):
        expect_end_of_maker(act, pair.process.pid)
    del act
    st.cuda.set_sync("event")
    expect_end_of_maker(functools.partial(answers.put, other), pair.process.pid)
    before, reports = st.stats()["blocks"], logging.handlers.BufferingHandler(10)
    logging.getLogger("shmtensor").addHandler(reports)
    del other, received, tensor
    gc.collect()
    assert st.stats()["blocks"] == before, "the device may use them"
    (report,) = reports.buffer
    assert "never continues" in report.getMessage()
    private = st.zeros(2, "u1", device="cuda")
    answers.put(private)  # nothing waits on the default stream for it
    assert answers.get() == [([0, 0], "cuda:0", False)]
    answers.end()


@case
def test_wait_includes_what_another_thread_receives_meanwhile() -> None:
    """Regression: the driver's wait hung, which followed a wait for the events received before."""
    first, second = Pair(send_at_work), Pair(send_at_work)
    for pair in (first, second):
        pair.put(st.zeros(2, "u1", device="cuda"))
    KEPT.append(first.get())
    with waiting_for(second, st.cuda.synchronize):
        KEPT.append(second.get())
        device.Latch(f"latch{first.process.pid}").open()
        second.kill()
    first.end()


@case
def test_event_that_never_completes_keeps_no_other() -> None:
    first, second = Pair(send_at_work), Pair(send_at_work)
    for pair in (first, second):
        pair.put(st.zeros(2, "u1", device="cuda"))
        KEPT.append(pair.get())
    first.kill()
    device.Latch(f"latch{second.process.pid}").open()

    def kept() -> int:
        st.cuda.ipc_collect()
        return len(cuda_events._awaited)

    device.wait_until(lambda: kept() == 1, "the event of the second process")
    second.end()


@case
def test_wait_for_another_stream_is_not_one_for_the_default_stream() -> None:
    pair, stream = Pair(send_at_work), make_stream()
    pair.put(st.zeros(2, "u1", device="cuda"))
    KEPT.append(pair.get())
    _core.cuda_wait_for_stream(0, 0, stream)
    with waiting_for(pair, functools.partial(_core.cuda_wait_for_stream, 0, 0, 1)):
        pair.kill()
    _core.cuda_wait_for_stream(0, 0, stream)


@case
def test_receive_during_a_capture_reports_the_end_of_the_maker() -> None:
    """The receiver waits itself then, because the driver refuses the default stream."""
    pair, stream = Pair(send_at_work), make_stream(BLOCKING)
    tensor = st.zeros(2, "u1", device="cuda")
    pair.put(tensor)
    device.wait_until(pair.outbox._reader.poll, "the message")
    with capture(stream), waiting_for(pair, pair.get):
        pair.kill()


def test_maker_that_is_killed_as_its_event_is_opened_is_reported(simulator) -> None:
    """The event can still be opened, and never completes."""
    simulator.run(
        """
        import pytest, shmtensor as st
        from tests.cuda import workers
        from tests.cuda.test_killed_makers import send_at_work
        if __name__ == "__main__":
            pair = workers.Pair(send_at_work)
            pair.put(st.zeros(2, "u1", device="cuda"))
            with pytest.raises(st.ProducerGone, match=f"{pair.process.pid}, which made it, has ended"):
                pair.get()
            pair.process.join(workers.TIMEOUT)
            assert pair.process.exitcode == -9
            st.cuda.synchronize()
        """,
        SHMTENSOR_SIM_KILL_OWNER="1",
    )
