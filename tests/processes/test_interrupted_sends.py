"""Signal handlers that raise during a send: the message arrives completely, or is cancelled."""

from __future__ import annotations

import fcntl
import gc
import os
import pickle
import signal
import struct
import threading
from contextlib import contextmanager
from multiprocessing import connection as std
from pathlib import Path

import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor import _core
from shmtensor.multiprocessing._spawn.report import ReportPipe, Returned
from shmtensor.multiprocessing.connection import _header
from tests.helpers.children import output, run_beside, wait_until


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
def alarms(handler, seconds: float):
    with handled(signal.SIGALRM, handler):
        signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


@contextmanager
def interrupted_in_a_wait(writer: int):
    """Send a signal when this thread waits for room in the pipe."""
    thread, call = threading.get_ident(), Path(f"/proc/self/task/{threading.get_native_id()}/syscall")

    def is_waiting() -> bool:
        words = call.read_text().split()  # the number and the arguments of the system call in which it sleeps
        return len(words) > 1 and int(words[1], 16) == writer

    def interrupt() -> None:
        try:
            wait_until(is_waiting, what="the pipe to be full")
        finally:
            signal.pthread_kill(thread, signal.SIGUSR1)

    interrupting = threading.Thread(target=interrupt)
    with handled(signal.SIGUSR1, raise_late):
        interrupting.start()
        try:
            yield
        finally:
            interrupting.join()


def send_repeatedly(send, *content) -> None:
    while True:
        send([*content, st.ones(4)])


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


@pytest.fixture(params=["Pipe", "duplex Pipe"])
def transport(request):
    """Functions that send and receive, and the connection to read from."""
    reader, writer = mp.Pipe(duplex="duplex" in request.param)
    yield writer.send, reader.recv, reader
    reader.close()
    writer.close()


def test_exception_after_the_last_byte_keeps_the_tickets(strategy, transport) -> None:
    """Regression: the message was in the pipe, and the reader got StaleHandleError."""
    send, receive, reader = transport
    for size in (0, 30_000):
        with interrupted_by_write(reader.fileno()), pytest.raises(Late):
            send([st.full(4, 7), bytes(size)])
        gc.collect()
        assert receive()[0].tolist() == [7] * 4
    assert st.stats()["in_flight"] == 0


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


def test_exception_while_the_pipe_is_full_cancels_the_message(strategy, transport) -> None:
    """One message is written in part, another not at all."""
    send, _, reader = transport
    for content in (b"", b"x" * (1 << 20)):
        with pytest.raises(Late), interrupted_in_a_wait(send.__self__.fileno()):
            send_repeatedly(send, content)
        gc.collect()
        # Only messages that are completely in the pipe are counted.
        assert st.stats()["in_flight"] == whole_messages(reader)
        st.gc(older_than=0)


def whole_messages(reader: std.Connection) -> int:
    os.set_blocking(reader.fileno(), False)
    content = b""
    try:
        while True:
            content += os.read(reader.fileno(), 1 << 20)
    except BlockingIOError:
        pass
    os.set_blocking(reader.fileno(), True)
    whole = 0
    while len(content) >= 4 and len(content) - 4 >= (size := int.from_bytes(content[:4], "big")):
        whole += 1
        content = content[4 + size :]
    return whole


def test_returning_signal_handler_interrupts_nothing(strategy, transport) -> None:
    """The handler empties the pipe; the write would not end otherwise."""
    send, _, reader = transport
    content = bytearray()

    def read(*_) -> None:
        try:
            while True:
                content.extend(os.read(reader.fileno(), 1 << 20))
        except BlockingIOError:
            pass

    os.set_blocking(reader.fileno(), False)
    with alarms(read, 0.01):
        send([st.ones(4), os.urandom(1 << 20)])
    read()
    assert struct.unpack_from("!i", content) == (len(content) - 4,)
    tensor, data = pickle.loads(memoryview(content)[4:])
    assert (tensor.tolist(), len(data)) == ([1] * 4, 1 << 20)
    assert st.stats()["in_flight"] == 0


def test_oversized_message_raises_as_in_the_standard_library(strategy, transport) -> None:
    send, _, reader = transport
    send_end = send.__self__
    os.set_blocking(send_end.fileno(), False)
    with pytest.raises(BlockingIOError, match=r"^\[Errno 11\]"):
        send([st.ones(4), bytes(8 << 20)])
    assert st.stats()["in_flight"] == 0
    reader.close()
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        send(st.ones(4))
    assert st.stats()["in_flight"] == 0
    send_end.close()
    with pytest.raises(OSError, match="handle is closed"):
        send(st.ones(4))


def test_reading_end_cannot_send() -> None:
    reader, writer = mp.Pipe(duplex=False)
    with reader, writer, pytest.raises(OSError, match="read-only"):
        reader.send(st.ones(4))
    assert st.stats()["in_flight"] == 0


@pytest.mark.parametrize("size", [0, 16_000, 16_384, 17_000, 1 << 20])
def test_standard_library_reads_our_messages(size, transport) -> None:
    send, _, reader = transport
    end = std.Connection(os.dup(reader.fileno()))
    thread = threading.Thread(target=send, args=(b"x" * size,))
    thread.start()
    assert end.recv() == b"x" * size
    thread.join(30)
    end.close()


def test_headers_equal_the_standard_library_s() -> None:
    for size in (0, 16_385, 0x7FFFFFFF):
        assert _header(size) == struct.pack("!i", size)
    assert _header(1 << 31) == struct.pack("!i", -1) + struct.pack("!Q", 1 << 31)


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
