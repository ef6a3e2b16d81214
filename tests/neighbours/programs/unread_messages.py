"""Messages that processes leave unread; `test_unread_messages.py` runs it. Argument: FUNCTION."""

import gc
import os
import re
import signal
import struct
import sys
import tempfile
import time
from pathlib import Path

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import manager_pid, wait_until


def in_flight():
    return st.stats()["in_flight"]


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


if __name__ == "__main__":
    globals()[sys.argv[1]]()
