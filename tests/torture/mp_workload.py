"""Transports with the interface of the standard library.

A pipe keeps half a message of a killed process. So one process creates the transport, starts a child,
exchanges tensors with it and ends it. A kill of the parent kills the child too: the child watches its parent.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import threading
from multiprocessing import connection

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.torture.transports import Letter

TIMEOUT = 60.0


class Broken(Exception):
    """A check failed in the child, or no reply arrived."""


def watch_parent() -> None:
    """Exit with the parent, at any instruction."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        connection.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def check(letter: Letter) -> Letter:
    if why := letter.mismatch():
        raise Broken(why)
    return letter


def echo(get, put) -> None:
    """Send back what is received, until None is received; runs in the child."""
    watch_parent()
    while (letter := get()) is not None:
        put(check(letter))


def echo_pipe(pipe) -> None:
    echo(pipe.recv, pipe.send)


def echo_queues(inbox, outbox) -> None:
    echo(inbox.get, outbox.put)


def check_letters(letters: list[Letter]) -> None:
    watch_parent()
    for letter in letters:
        check(letter)


def exchange(kind: str, method: str, letters: list[Letter], rng: random.Random) -> list[Letter]:
    """Send the letters through one transport and back."""
    context = mp.get_context(method)
    if kind == "Pool":
        with context.Pool(2, watch_parent) as pool:
            results = pool.map_async(check, letters)
            if rng.random() < 0.5:
                rng.choice(pool._pool).kill()
            try:
                back = results.get(TIMEOUT)
            except mp.WorkerLost as lost:
                # `results` keeps it, and its traceback this frame: the cycle would keep the letters.
                lost.__traceback__ = None
                back = []
            pool.close()
            pool.join()
        return back
    if kind == "Process":
        process = context.Process(target=check_letters, args=(letters,))
        process.start()
        if rng.random() < 0.3:
            process.join(rng.random() * 0.02)
            process.kill()
        return end(process, letters)
    if kind == "Pipe":
        ours, theirs = context.Pipe()
        put, reader, closing = ours.send, ours, [ours, theirs]
        process = context.Process(target=echo_pipe, args=(theirs,))
    else:
        make = st.Queue if kind == "st.Queue" else getattr(context, kind)
        inbox, outbox = make(), make()
        put, reader, closing = inbox.put, outbox, [inbox, outbox]
        process = context.Process(target=echo_queues, args=(inbox, outbox))
    process.start()
    for letter in letters:
        put(letter)
    back = [_take(reader) for _ in letters]
    put(None)
    end(process, letters)
    for transport in closing:
        transport.close()
        if kind == "Queue":
            transport.join_thread()
    return back


def _take(reader) -> Letter:
    """Receive from a queue or a pipe."""
    if isinstance(reader, st.Queue):
        return reader.get(timeout=TIMEOUT)
    if not getattr(reader, "_reader", reader).poll(TIMEOUT):
        raise Broken(f"no message within {TIMEOUT} s")
    return reader.get() if hasattr(reader, "get") else reader.recv()


def end(process, letters: list[Letter]) -> list[Letter]:
    process.join(TIMEOUT)
    if process.is_alive():
        process.kill()
        process.join()
        raise Broken(f"the child did not exit within {TIMEOUT} s")
    if process.exitcode not in (0, -signal.SIGKILL):
        raise Broken(f"the child exited with {process.exitcode}")
    process.close()
    return letters
