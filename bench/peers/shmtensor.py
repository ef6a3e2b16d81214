"""shmtensor with its default strategy."""

from __future__ import annotations

from multiprocessing.context import BaseContext
from typing import Any

import shmtensor as st
import shmtensor.multiprocessing as mp
from bench.peers import Array

__all__ = ["PEER", "Shmtensor"]


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


PEER = Shmtensor("shmtensor", "file_descriptor")
