"""Functions that the tests run in other processes; spawned children import them by name."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.queues import take as take

SPAWN: Any = mp.get_context("spawn")
TIMEOUT = 60.0


def echo(inbox: Any, outbox: Any) -> None:
    """Add one to each received tensor, on the host, and send the same tensor back."""
    while (tensor := inbox.get()) is not None:
        if not tensor.readonly:
            tensor.copy_(tensor.cpu().numpy() + 1)
        outbox.put(tensor)


def follow(inbox: Any, outbox: Any) -> None:
    """Answer with each newer value of a `Latest`, in place."""
    latest = inbox.get()
    while (value := latest.get(after=latest.received)) is not None:
        outbox.put((latest.received, value["w"].device, value["w"].tolist()))


def relay(inbox: Any, outbox: Any) -> None:
    while (tensor := inbox.get()) is not None:
        outbox.put(tensor)


def answer(inbox: Any, outbox: Any) -> None:
    """Report what was received, as lists; errors by their class and text."""
    while True:
        try:
            item = inbox.get()
            if item is None:
                return
            tensors = item if isinstance(item, list) else [item]
            outbox.put([(tensor.tolist(), tensor.device, tensor.readonly) for tensor in tensors])
        except Exception as error:
            outbox.put((type(error).__name__, str(error)))


def hold(inbox: Any, outbox: Any) -> None:
    """Keep everything received until the end."""
    kept = []
    while (item := inbox.get()) is not None:
        kept.append(item)
        outbox.put(len(kept))
    outbox.put([tensor.tolist() for tensor in kept])


def produce(outbox: Any, inbox: Any) -> None:
    """Send a tensor; exit on request."""
    outbox.put(st.asarray([1.5, 2.5], device="cuda"))
    inbox.get()


def die(inbox: Any, outbox: Any) -> None:
    """Receive a tensor, report it, and wait to be killed."""
    tensor = inbox.get()
    outbox.put(tensor.tolist())
    time.sleep(TIMEOUT)


def send_around(context: Any, array: Any, halve: Any, put_sum: Any) -> tuple[Any, Any, Any, Any]:
    """Send an array to a pool, to a process as an argument, and with the pool's result through a pipe.

    Returns the result of `halve` in the pool, what `put_sum` puts in the process, and both out of the pipe.
    """
    with context.Pool(1) as pool:
        half = pool.apply_async(halve, (array,)).get(TIMEOUT)
    outbox = context.SimpleQueue()
    process = context.Process(target=put_sum, args=(array, outbox))
    process.start()
    total = take(outbox, TIMEOUT)
    process.join(TIMEOUT)
    assert process.exitcode == 0
    reader, writer = context.Pipe()
    with reader, writer:
        writer.send([array, half])
        first, second = reader.recv()
    return half, total, first, second


class Pair:
    """A child with a queue in each direction."""

    def __init__(self, target: Any) -> None:
        self.inbox, self.outbox = SPAWN.SimpleQueue(), SPAWN.SimpleQueue()
        self.process = SPAWN.Process(target=target, args=(self.inbox, self.outbox), daemon=True)
        self.process.start()

    def put(self, item: Any) -> None:
        self.inbox.put(item)

    def get(self) -> Any:
        return take(self.outbox, TIMEOUT)

    def end(self, item: Any = None) -> None:
        self.inbox.put(item)
        self.process.join(TIMEOUT)
        assert self.process.exitcode == 0

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join(TIMEOUT)
