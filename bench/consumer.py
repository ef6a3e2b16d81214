"""A consumer process that takes messages and acknowledges them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bench.options import Options

BASELINE = bytes(64)
"""The message whose hand-over is the baseline of all others."""

Server = Callable[[Any, Any, Any], None]
"""What a consumer runs, with its `Peer` and two queues."""


def acknowledge(peer: Any, inbox: Any, outbox: Any) -> None:
    """Receive messages, release their tensors and acknowledge them, until None is received."""
    while (message := inbox.get()) is not None:
        if type(message) is list:
            for received in [peer.receive(one) for one in message]:
                peer.drop(received)
        elif type(message) is not bytes:
            received = peer.receive(message)
            peer.drop(received)
        message = received = None
        outbox.put(b"")


def _serve(peer: Any, serve: Server, inbox: Any, outbox: Any, options: Options) -> None:
    options.place(1)
    outbox.put("ready")
    serve(peer, inbox, outbox)


class ConsumerProcess:
    """The producer's view of the consumer."""

    def __init__(self, peer: Any, options: Options, serve: Server) -> None:
        context: Any = peer.context()
        self.inbox = context.SimpleQueue()
        self.outbox = context.SimpleQueue()
        self.process = context.Process(
            target=_serve, args=(peer, serve, self.inbox, self.outbox, options), daemon=True
        )
        self.process.start()
        assert self.outbox.get() == "ready"

    def hand_over(self, message: Any) -> Any:
        """Put a message and wait for the reply. The parent of this process sets the deadline."""
        self.inbox.put(message)
        return self.outbox.get()

    def close(self) -> None:
        self.inbox.put(None)
        self.process.join(10)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.inbox.close()
        self.outbox.close()


@contextmanager
def consumer_process(peer: Any, options: Options, serve: Server = acknowledge) -> Iterator[ConsumerProcess]:
    """Start a consumer process; stop it at the end of the context."""
    started = ConsumerProcess(peer, options, serve)
    try:
        yield started
    finally:
        started.close()
