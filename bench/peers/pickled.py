"""Plain multiprocessing: a NumPy array goes through the pipe, byte by byte.

The thread of a `Queue` writes into the pipe ("pickle-queue"), or the caller of a `SimpleQueue` ("pickle").
"""

from __future__ import annotations

from multiprocessing.context import BaseContext

from bench.peers import Peer, spawn_with


class Pickled(Peer):
    """Private arrays; copies in the message."""

    def context(self) -> BaseContext:
        context = super().context()
        return spawn_with(context.Queue) if self.name == "pickle-queue" else context


PEER = Pickled
