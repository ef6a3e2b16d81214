"""The standard library's SharedMemory: a named segment for each array; its name in the message."""

from __future__ import annotations

from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np

from bench.peers import Array, Peer


class Standard(Peer):
    """What a careful user writes by hand."""

    def fresh(self, nbytes: int) -> Any:
        return SharedMemory(create=True, size=nbytes)

    def copy_in(self, array: Array) -> Any:
        memory = SharedMemory(create=True, size=array.nbytes)
        np.copyto(np.ndarray(array.shape, array.dtype, memory.buf), array)
        return memory

    def message(self, item: Any) -> Any:
        return item.name, item.size

    def receive(self, message: Any) -> Any:
        return SharedMemory(message[0])

    def array(self, received: Any) -> Array:
        return np.ndarray((received.size,), np.uint8, received.buf)

    def drop(self, received: Any) -> None:
        received.close()

    def dispose(self, item: Any) -> None:
        item.close()
        item.unlink()


PEER = Standard
