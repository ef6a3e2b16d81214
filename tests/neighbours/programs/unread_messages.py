"""Messages that processes leave unread; `test_unread_messages.py` runs it. Argument: FUNCTION."""

import contextlib
import gc
import os
import re
import signal
import socket
import struct
import sys
import tempfile
import time
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor import _core
from tests.helpers.children import kill_manager_of, manager_pid, wait_until
from tests.observer.processes import descriptors

GRACE = 10  # seconds, and the manager checks every 5
LONGER = GRACE + 8


def in_flight():
    return st.stats()["in_flight"]


def watched():
    targets = descriptors(manager_pid(st.stats()["session"])).values()
    return sum(target.startswith("pipe:") for target in targets)


def send(end, obj):
    """Send through a pipe of the standard library, as the integrations do, so that the manager watches it."""
    with _core.SendScope(_core.OutgoingPipe(end.fileno())) as message:
        end.send_bytes(ForkingPickler.dumps(obj))
        message.delivered()


def killed_processes():
    """60 kills of processes that exchange tensors through every kind of channel, and by arguments."""
    WORKERS = 3

    class Blocks:  # the worker before it loads the arguments that follow
        def __reduce__(self):
            return time.sleep, (100,)

    def start_one_that_loads_nothing(answer):
        process = mp.get_context("spawn").Process(target=print, args=(Blocks(), st.ones(10)))
        process.start()
        os.write(answer, struct.pack("i", process.pid))
        signal.pause()

    def pass_on(inbox, outbox):
        receive = inbox.recv if hasattr(inbox, "recv") else inbox.get
        send = outbox.send if hasattr(outbox, "send") else outbox.put
        while True:
            received = receive()
            tensor = st.empty(1000)
            tensor[0] = received[0]
            del received
            send(tensor)

    def channels(kind):
        for _ in range(WORKERS):
            if kind in ("pipe", "duplex"):
                yield context.Pipe(kind == "duplex")
            else:
                queue = getattr(context, kind)()
                yield queue, queue

    def kill(process):
        process.kill()
        process.join()

    def exchange_until_killed(kind):
        readers, writers = zip(*channels(kind), strict=True)
        workers = [
            context.Process(target=pass_on, args=(readers[i], writers[(i + 1) % WORKERS]))
            for i in range(WORKERS)
        ]
        for worker in workers:
            worker.start()
        for i in range(5 * WORKERS):
            tensor = st.full(1000, i)
            writer = writers[i % WORKERS]
            (writer.send if hasattr(writer, "send") else writer.put)(tensor)
        time.sleep(0.05)
        for worker in workers:
            kill(worker)
        for end in {*readers, *writers}:
            if hasattr(end, "cancel_join_thread"):
                end.cancel_join_thread()
            end.close()

    def start_and_kill_both():
        answer, question = os.pipe()
        parent = context.Process(target=start_one_that_loads_nothing, args=(question,))
        parent.start()
        (child,) = struct.unpack("i", os.read(answer, 4))
        kill(parent)
        os.kill(child, signal.SIGKILL)
        os.close(answer)
        os.close(question)

    context = mp.get_context("fork")
    st.empty(1)
    for kind in ("pipe", "duplex", "SimpleQueue", "Queue", "JoinableQueue"):
        for _ in range(3):
            exchange_until_killed(kind)
    for _ in range(6):
        start_and_kill_both()
    gc.collect()
    wait_until(lambda: in_flight() == 0, what="the messages and arguments to be freed")
    wait_until(lambda: st.stats()["blocks"] == 0, what="the blocks")


def late_orphans():
    """They load their arguments after their parent was killed, once with the manager, and get an error."""

    class Late:
        def __init__(self, fifo):
            self.fifo = fifo

        def __reduce__(self):
            return open, (self.fifo,)  # which waits for a writer

    def start_all(started, turn):
        os.dup2(os.open("errors", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
        for method in METHODS:
            arguments = Late(f"{method}{turn}"), st.full(10, 7)
            mp.get_context(method).Process(target=print, args=arguments).start()
        os.write(started, b"x")
        signal.pause()

    METHODS = ("spawn", "forkserver", "server")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        fifos = [f"{method}{turn}" for method in METHODS for turn in range(2)]
        for fifo in fifos:
            os.mkfifo(fifo)
        st.empty(1)
        manager = manager_pid(st.stats()["session"])
        answer, started = os.pipe()
        try:
            for turn, manager_is_killed in enumerate((False, True)):
                parent = mp.get_context("fork").Process(target=start_all, args=(started, turn))
                parent.start()
                os.read(answer, 1)
                assert in_flight() == 3
                if manager_is_killed:
                    os.kill(manager, signal.SIGSTOP)
                parent.kill()
                parent.join()
                if manager_is_killed:
                    os.kill(manager, signal.SIGKILL)
                wait_until(lambda: in_flight() == 0, what="the arguments to be freed")
                wait_until(lambda: st.stats()["blocks"] == 0, what="the blocks")
        finally:
            for fifo in fifos:
                os.open(fifo, os.O_RDWR)
        error = re.compile("StaleHandleError.*before its arguments were loaded")
        wait_until(lambda: len(error.findall(Path("errors").read_text())) == 6, what="the children to fail")
        os.chdir("/")


def readable_messages():
    """They stay while any process has the reading end; for the grace period if one took the bytes before."""

    def take_bytes(end):
        (size,) = struct.unpack("!i", os.read(end.fileno(), 4))
        return os.read(end.fileno(), size)

    tensor = st.full(10, 7)

    # In a living process, in a process that knows nothing of it, and in a message.
    reader, writer = Pipe(False)
    for _ in range(3):
        send(writer, tensor)
    other_reader, other_writer = Pipe(False)
    send(other_writer, tensor)
    until_our_end, our_end = os.pipe()
    if (stranger := os.fork()) == 0:
        for end in (our_end, reader.fileno()):
            os.close(end)
        os.read(until_our_end, 1)
        os._exit(0)
    travelling_reader, travelling_writer = Pipe(False)
    send(travelling_writer, tensor)
    ours, theirs = socket.socketpair()
    socket.send_fds(ours, [b"x"], [travelling_reader.fileno()])
    for end in (other_reader, travelling_reader):
        end.close()
    kept = in_flight()
    assert kept == 5

    # Taken aside, with every end closed.
    taken = []
    for _ in range(2):
        raw_reader, raw_writer = Pipe(False)
        send(raw_writer, tensor)
        taken.append(take_bytes(raw_reader))
        raw_reader.close()
        raw_writer.close()
    begin = time.monotonic()
    time.sleep(GRACE / 2)
    assert ForkingPickler.loads(taken[0])[9] == 7
    del tensor
    gc.collect()
    wait_until(lambda: in_flight() == kept, timeout=LONGER + 10, what="the grace period to pass")
    assert time.monotonic() - begin > GRACE - 1
    # The block is still in other messages, so this is not stale; the ticket is gone.
    assert ForkingPickler.loads(taken[1])[9] == 7
    gc.collect()

    time.sleep(max(0, begin + LONGER - time.monotonic()))
    assert in_flight() == kept
    for _ in range(3):
        assert reader.recv()[9] == 7
    _, (fd,), _, _ = socket.recv_fds(theirs, 1, 1)
    assert Connection(fd).recv()[9] == 7
    assert in_flight() == 1
    os.close(our_end)
    os.waitpid(stranger, 0)
    wait_until(lambda: in_flight() == 0, timeout=LONGER + 10, what="the stranger's message")
    assert st.stats()["blocks"] == 0


def late_bytes():
    reader, writer = Pipe(False)
    send(writer, st.ones(10))
    content = reader.recv_bytes()
    reader.close()
    wait_until(lambda: in_flight() == 0, timeout=LONGER + 10, what="the grace period to pass")
    try:
        ForkingPickler.loads(content)
    except st.StaleHandleError as error:
        assert "reading end" in str(error), error
    else:
        raise AssertionError("they were loaded")


def ends():
    """Writers get EPIPE and readers EOF, whoever ends first, while the manager watches the pipe."""
    context = mp.get_context("fork")

    def read_to_the_end(reader, writer, count):
        writer.close()
        for _ in range(count):
            reader.recv()
        with contextlib.suppress(EOFError):
            reader.recv()
            os._exit(1)

    for _ in range(20):
        reader, writer = Pipe(False)
        send(writer, st.ones(1))
        wait_until(watched, what="the manager to watch the pipe")
        reader.recv()
        reader.close()
        try:
            send(writer, st.ones(1))
            raise AssertionError("there is no reader")
        except BrokenPipeError:
            writer.close()

        reader, writer = Pipe(False)
        process = context.Process(target=read_to_the_end, args=(reader, writer, 3))
        process.start()
        reader.close()
        for _ in range(3):
            send(writer, st.ones(1))
        writer.close()
        process.join(20)
        assert process.exitcode == 0
    assert in_flight() == 0
    assert watched() > 20
    wait_until(lambda: watched() == 0, timeout=LONGER + 10, what="the manager to close what it has")


def killed_manager():
    """A message that no report to the next manager covers stays until `gc`; reports cover older messages."""
    (reported, reported_writer), (forgotten, forgotten_writer), (alive, alive_writer) = (
        Pipe(False) for _ in range(3)
    )
    for writer in (reported_writer, forgotten_writer, alive_writer):
        send(writer, st.ones(10))
        send(writer, st.ones(10))
    wait_until(lambda: watched() == 3, what="the manager to watch the pipes")
    kill_manager_of(st.stats()["session"])
    send(reported_writer, st.ones(10))
    send(alive_writer, st.ones(10))
    wait_until(lambda: watched() == 2, what="the next manager to watch the pipes")
    assert in_flight() == 8
    for end in (reported, reported_writer, forgotten, forgotten_writer):
        end.close()
    wait_until(lambda: in_flight() == 5, timeout=LONGER + 10, what="the messages in the closed pipe")
    time.sleep(GRACE / 2)
    assert in_flight() == 5
    for _ in range(3):
        assert alive.recv()[9] == 1
    assert st.gc(older_than=0) == 2
    assert st.stats()["blocks"] == 0


if __name__ == "__main__":
    globals()[sys.argv[1]]()
