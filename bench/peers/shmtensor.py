"""shmtensor with its default strategy."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from multiprocessing.context import BaseContext
from typing import Any

import shmtensor as st
import shmtensor.multiprocessing as mp
from bench.options import Options
from bench.peers import Array
from bench.readers import Readers

__all__ = ["PEER", "Shmtensor"]

MAXSIZE = 16  # messages of a broadcast


def _messages(channel: Any) -> Iterable[Any]:
    messages: Iterable[Any] = channel.reader() if isinstance(channel, st.Broadcast) else channel
    return messages


class Shmtensor:
    """Tensors in an arena; handles in the message."""

    def __init__(self, name: str, strategy: str) -> None:
        self.name = name
        mp.set_sharing_strategy(strategy)

    def context(self) -> BaseContext:
        return mp.get_context("spawn")

    def fresh(self, nbytes: int) -> Any:
        return st.empty(nbytes, "u1")

    def copy_in(self, array: Array) -> Any:
        return st.asarray(array)

    def message(self, item: Any) -> Any:
        return item

    def receive(self, message: Any) -> Any:
        return message

    def array(self, received: Any) -> Array:
        array: Array = received.numpy()
        return array

    def drop(self, received: Any) -> None:
        pass

    def dispose(self, item: Any) -> None:
        pass

    def readers(self, count: int, options: Options) -> Readers:
        channel = st.Broadcast(MAXSIZE)

        def connect() -> Any:
            channel.wait_for_readers(count, timeout=60)
            return channel.put

        return Readers([partial(_messages, channel)] * count, connect, options)

    def one_reader(self, options: Options) -> Readers:
        queue = st.Queue(MAXSIZE)
        return Readers([partial(_messages, queue)], lambda: queue.put, options)


PEER = Shmtensor("shmtensor", "file_descriptor")
