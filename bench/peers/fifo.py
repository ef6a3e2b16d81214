"""faster-fifo: pickles through a ring of bytes in shared memory, one copy on each side."""

from __future__ import annotations

from multiprocessing.context import BaseContext
from typing import Any

from faster_fifo import Queue

from bench.peers import Peer, spawn_with

ROOM = 160 << 20  # bytes; a message must fit whole


class Ring:
    """Its queue with the methods of a SimpleQueue."""

    def __init__(self) -> None:
        self._queue = Queue(max_size_bytes=ROOM)

    def put(self, message: Any) -> None:
        self._queue.put(message)

    def get(self) -> Any:
        return self._queue.get(timeout=float(1 << 20))

    def put_many(self, messages: list[Any]) -> None:
        self._queue.put_many(messages)

    def get_many(self, most: int) -> list[Any]:
        messages: list[Any] = self._queue.get_many(max_messages_to_get=most, timeout=float(1 << 20))
        return messages

    def close(self) -> None:
        self._queue.close()


class Fifo(Peer):
    """Private arrays; copies in the message."""

    def context(self) -> BaseContext:
        return spawn_with(Ring)


PEER = Fifo
