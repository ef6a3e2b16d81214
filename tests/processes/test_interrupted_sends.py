"""Signal handlers that raise during a send: the message arrives completely, or is cancelled."""

from __future__ import annotations

import fcntl
import gc
import os
import pickle
import signal
from contextlib import contextmanager

import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor import _core
from shmtensor.multiprocessing._spawn.report import ReportPipe, Returned
from tests.helpers.children import output, run_beside


class Late(Exception):
    pass


def raise_late(*_) -> None:
    raise Late


@contextmanager
def handled(number, handler):
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def interrupted_by_write(reader: int):
    """The kernel sends SIGIO within the write, so that no Python code runs in between."""
    flags = fcntl.fcntl(reader, fcntl.F_GETFL)
    with handled(signal.SIGIO, raise_late):
        fcntl.fcntl(reader, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(reader, fcntl.F_SETFL, flags | os.O_ASYNC)
        try:
            yield
        finally:
            fcntl.fcntl(reader, fcntl.F_SETFL, flags)


def test_exception_after_a_report_keeps_the_tickets(strategy) -> None:
    pipe = ReportPipe()
    with interrupted_by_write(pipe.reader), pytest.raises(Late):
        pipe.sender().returned(st.full(4, 7))
    gc.collect()
    report = pipe.read()
    assert isinstance(report, Returned)
    assert report.content is not None
    assert pickle.loads(report.content).tolist() == [7] * 4
    assert st.stats()["in_flight"] == 0
    pipe.close()


def test_reading_end_cannot_send() -> None:
    reader, writer = mp.Pipe(duplex=False)
    with reader, writer, pytest.raises(OSError, match="read-only"):
        reader.send(st.ones(4))
    assert st.stats()["in_flight"] == 0


def test_outgoing_without_exit_collects_nothing_more() -> None:
    """Python 3.14 checks for signals between `__enter__` and the body."""
    message = _core.SendScope()
    message.__enter__()
    del message
    receiver, sender = mp.Pipe(duplex=False)
    with receiver, sender:
        sender.send(st.ones(4))
        assert receiver.recv().tolist() == [1] * 4


@pytest.mark.parametrize("kind", ["Pipe", "SimpleQueue"])
def test_random_signals_leave_only_complete_messages(kind) -> None:
    assert output(run_beside(__file__, "interrupted_sends", kind, "1")) == "fine\n"
