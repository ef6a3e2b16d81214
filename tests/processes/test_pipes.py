"""Pipes, with those of the standard library as the measure of what their methods do."""

from __future__ import annotations

import multiprocessing as std
import os
import select
import signal
import threading
import time
from multiprocessing.connection import Connection, wait

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor import _core
from tests.helpers.children import manager_pids, running, wait_until
from tests.helpers.live_resources import assert_no_leaks, live_resources
from tests.processes import pipe_storm

SECONDS = 60


@pytest.fixture(params=[std, mp], ids=["standard", "ours"])
def module(request):
    return request.param


def test_objects_and_bytes_go_through_one_pipe(module) -> None:
    first, second = module.Pipe()
    assert isinstance(first, Connection)
    for sent in (None, 5, "text", b"bytes", (1, [2.5]), {"key": {1}}, 1 << 100, b"b" * 70_000):
        thread = threading.Thread(target=first.send, args=(sent,))
        thread.start()
        assert second.recv() == sent
        thread.join()
    second.send_bytes(b"0123456789", 2, 5)
    second.send_bytes(np.arange(3, dtype=np.int16))
    second.send_bytes(b"")
    assert first.recv_bytes() == b"23456"
    assert first.recv_bytes(6) == bytes((0, 0, 1, 0, 2, 0))
    assert first.recv_bytes() == b""
    first.send_bytes(b"\x80\x04K\x05.")
    assert second.recv() == 5  # bytes that are a pickle
    first.send([1, 2])
    content = second.recv_bytes()
    assert std.reduction.ForkingPickler.loads(content) == [1, 2]
    into = bytearray(10)
    first.send_bytes(b"abc")
    assert (second.recv_bytes_into(into, 4), into[4:7]) == (3, b"abc")
    first.send_bytes(b"too long" * 2)
    with pytest.raises(std.BufferTooShort) as error:
        second.recv_bytes_into(into)
    assert error.value.args == (b"too long" * 2,)
    with first, second:
        pass
    assert (first.closed, second.closed) == (True, True)


def test_errors_are_those_of_the_standard_library(module) -> None:
    reader, writer = module.Pipe(duplex=False)
    assert (reader.readable, reader.writable, writer.readable, writer.writable) == (True, False, False, True)
    for wrong, match in (
        (lambda: reader.send(1), "read-only"),
        (lambda: reader.send_bytes(b""), "read-only"),
        (writer.recv, "write-only"),
        (writer.recv_bytes, "write-only"),
        (writer.poll, "write-only"),
    ):
        with pytest.raises(OSError, match=match):
            wrong()
    for arguments in ((b"abc", -1), (b"abc", 4), (b"abc", 0, -1), (b"abc", 1, 3)):
        with pytest.raises(ValueError, match=r"negative|offset|length|size"):
            writer.send_bytes(*arguments)
    with pytest.raises(ValueError, match="negative"):
        reader.recv_bytes(-1)
    with pytest.raises(TypeError):
        writer.send_bytes("text")
    writer.send_bytes(b"too long")
    with pytest.raises(OSError, match="bad message length"):
        reader.recv_bytes(3)
    assert reader.closed
    with pytest.raises(BrokenPipeError):
        writer.send(1)
    writer.close()
    writer.close()
    for call in (writer.send, writer.send_bytes, reader.recv_bytes_into):
        with pytest.raises(OSError, match="handle is closed"):
            call(b"")
    for call in (reader.recv, reader.recv_bytes, reader.poll, reader.fileno, writer.fileno):
        with pytest.raises(OSError, match="handle is closed"):
            call()


def test_what_was_sent_is_received_before_the_end(module) -> None:
    reader, writer = module.Pipe(duplex=False)
    assert (reader.poll(), reader.poll(0.01), reader.poll(-1)) == (False, False, False)
    writer.send(1)
    writer.send_bytes(b"2")
    writer.close()
    assert reader.poll()
    assert reader.poll(None)
    assert (reader.recv(), reader.recv_bytes()) == (1, b"2")
    assert reader.poll()  # recv would not wait
    for _ in range(2):
        with pytest.raises(EOFError):
            reader.recv()
    reader.close()


def test_descriptor_is_readable_while_recv_would_not_wait(module) -> None:
    reader, writer = module.Pipe(duplex=False)
    other, _ = pair = module.Pipe()
    assert wait([reader, other], 0) == []
    writer.send(1)
    writer.send(2)
    for _ in range(2):
        assert wait([reader, other], SECONDS) == [reader]
        reader.recv()
    assert wait([reader, other], 0.01) == []
    poll = select.poll()
    poll.register(reader.fileno(), select.POLLIN)
    threading.Timer(0.02, writer.close).start()
    assert [number for number, _ in poll.poll(SECONDS * 1000)] == [reader.fileno()]
    with pytest.raises(EOFError):
        reader.recv()
    for one in (reader, *pair):
        one.close()


def echo(connection) -> None:
    with connection:
        while not isinstance(message := connection.recv(), str):
            connection.send(message)
    time.sleep(SECONDS)


@pytest.mark.parametrize("way", ["close", "exit", "kill", "kill with the manager"])
def test_end_of_the_other_process_is_noticed_while_asleep(ctx, way) -> None:
    first, second = ctx.Pipe()
    process = ctx.Process(target=echo, args=(second,))
    process.start()
    second.close()
    first.send(st.ones(3))
    assert first.recv().tolist() == [1] * 3

    def act() -> None:
        time.sleep(0.05)
        if way == "kill with the manager":
            for pid in manager_pids(st.stats()["session"]):
                os.kill(pid, signal.SIGKILL)
        if "kill" in way:
            process.kill()
        elif way == "exit":
            process.terminate()
        else:
            first.send("close")

    thread = threading.Thread(target=act)
    thread.start()
    with pytest.raises(EOFError):
        first.recv()
    with pytest.raises(BrokenPipeError):
        first.send(1)
    thread.join()
    first.close()
    process.kill()
    process.join()
    process.close()


def test_sender_that_waits_for_room_notices_the_end() -> None:
    reader, writer = mp.Pipe(duplex=False)
    for _ in range(8):
        writer.send(bytes(8 << 20))
    threading.Timer(0.05, reader.close).start()
    with pytest.raises(BrokenPipeError):
        writer.send(bytes(8 << 20))
    writer.close()


def test_unread_messages_are_freed_with_their_reader() -> None:
    with assert_no_leaks():
        before = live_resources()[0]
        reader, writer = mp.Pipe(duplex=False)
        pipe = live_resources()[0]
        for _ in range(100):
            writer.send([st.ones(100), bytes(1000)])
        assert live_resources()[0] > pipe + 100
        reader.close()
        left = 3  # the queue, a ring, the writing end
        wait_until(lambda: live_resources()[0] <= before + left, what="the messages")
        writer.close()
        del reader, writer


def test_inherited_end_keeps_the_pipe_open() -> None:
    first, second = mp.Pipe()
    pid = os.fork()
    if pid == 0:
        first.close()
        second.recv()
        second.send("from the child")
        os._exit(0)
    second.close()  # the child has it
    first.send(1)
    assert first.recv() == "from the child"
    with pytest.raises(EOFError):
        first.recv()
    os.waitpid(pid, 0)
    first.close()


def pass_on(inbox, outbox) -> None:
    connection = inbox.get()
    connection.send("through a queue")
    outbox.send(connection)
    outbox.close()


def test_ends_travel(ctx) -> None:
    first, second = ctx.Pipe()
    inbox, (reader, writer) = ctx.SimpleQueue(), ctx.Pipe(duplex=False)
    with running(ctx, pass_on, inbox, writer):
        writer.close()
        inbox.put(second)
        second.close()
        assert first.recv() == "through a queue"
    assert not first.poll()
    third = reader.recv()
    third.send("through a pipe")
    assert first.recv() == "through a pipe"
    third.close()
    with pytest.raises(EOFError):
        first.recv()
    with pytest.raises(EOFError):
        reader.recv()
    first.close()
    reader.close()


def test_an_end_in_a_message_that_no_process_reads_ends() -> None:
    first, second = mp.Pipe()
    queue = st.Queue()
    queue.put(second)
    second.close()
    assert not first.poll()
    del queue
    with pytest.raises(EOFError):
        first.recv()
    first.close()


def test_threads_receive_each_message_once() -> None:
    reader, writer = mp.Pipe(duplex=False)
    got: list[int] = []

    def receive() -> None:
        while True:
            try:
                got.append(reader.recv())
            except EOFError:
                return

    def send(first: int) -> None:
        for number in range(first, first + 500):
            writer.send(number)

    receivers = [threading.Thread(target=receive) for _ in range(3)]
    senders = [threading.Thread(target=send, args=(first,)) for first in (0, 500)]
    for thread in receivers + senders:
        thread.start()
    for thread in senders:
        thread.join()
    writer.close()
    for thread in receivers:
        thread.join(SECONDS)
    assert sorted(got) == list(range(1000))
    reader.close()


def test_thread_that_polls_passes_its_wakeup_on() -> None:
    """Regression: a message woke the thread that polls, and one that receives slept on for up to a second."""
    reader, writer = mp.Pipe(duplex=False)

    def seconds_to_receive() -> float:
        received = []
        poll = threading.Thread(target=reader.poll, args=(SECONDS,))
        recv = threading.Thread(target=lambda: received.append((reader.recv(), time.monotonic())))
        for thread in (poll, recv):
            thread.start()
            time.sleep(0.05)  # it sleeps
        sent = time.monotonic()
        writer.send("for both")
        recv.join()
        writer.send("for the first one")
        poll.join()
        assert reader.recv() == "for the first one"
        return received[0][1] - sent

    assert any(seconds_to_receive() < 0.5 for _ in range(5)), "the machine is not slow in each round"


def test_closing_in_another_thread_ends_recv() -> None:
    first, second = mp.Pipe()
    threading.Timer(0.05, first.close).start()
    with pytest.raises(OSError, match="handle is closed"):
        first.recv()
    second.close()


def test_a_thousand_pipes() -> None:
    with assert_no_leaks():
        pipes = [mp.Pipe() for _ in range(1000)]
        for number in range(1000):
            pipes[number][0].send(number)
        assert [second.recv() for _, second in pipes] == list(range(1000))
        assert len(os.listdir("/proc/self/fd")) < 100
        for first, second in pipes:
            first.close()
            with pytest.raises(EOFError):
                second.recv()
        del pipes, first, second


def test_end_that_is_deleted_is_closed() -> None:
    first, second = mp.Pipe()
    del first
    with pytest.raises(EOFError):
        second.recv()
    second.close()
    _core.ensure_managers()


def test_storm_of_kills() -> None:
    with assert_no_leaks():
        seen = pipe_storm.run(50)
    assert seen.messages > 50
