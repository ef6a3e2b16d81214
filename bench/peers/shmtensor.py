"""shmtensor: by its default strategy, with named shared memory ("-fs"), or over its own queue ("-queue")."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from multiprocessing.context import BaseContext
from typing import Any

import shmtensor as st
import shmtensor.multiprocessing as mp
from bench.options import Options
from bench.peers import Array, Peer, spawn_with
from bench.readers import Readers

MAXSIZE = 16  # messages of a broadcast


def _messages(channel: Any) -> Iterable[Any]:
    messages: Iterable[Any] = channel.reader() if isinstance(channel, st.Broadcast) else channel
    return messages


class Shmtensor(Peer):
    """Tensors in an arena; handles in the message, tickets in the queue."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        mp.set_sharing_strategy("file_system" if name == "shmtensor-fs" else "file_descriptor")

    def context(self) -> BaseContext:
        return spawn_with(st.Queue) if self.name == "shmtensor-queue" else mp.get_context("spawn")

    def fresh(self, nbytes: int) -> Any:
        return st.empty(nbytes, "u1")

    def copy_in(self, array: Array) -> Any:
        return st.asarray(array)

    def readers(self, count: int, options: Options) -> Readers:
        channel = st.Broadcast(MAXSIZE)

        def connect() -> Any:
            channel.wait_for_readers(count, timeout=60)
            return channel.put

        return Readers([partial(_messages, channel)] * count, connect, options)

    def one_reader(self, options: Options) -> Readers:
        queue = st.Queue(MAXSIZE)
        return Readers([partial(_messages, queue)], lambda: queue.put, options)


PEER = Shmtensor
