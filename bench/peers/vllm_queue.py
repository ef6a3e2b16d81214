"""vLLM's MessageQueue: pickles in a ring in shared memory, one writer, a fixed number of readers.

A reader spins for a second after a message, then waits for a message over ZeroMQ. The ring has the size that
is its default: 10 messages of 24 MiB. Larger ones go over ZeroMQ.
"""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
import os
import pickle
import sys
from collections.abc import Iterator
from functools import partial
from multiprocessing.context import BaseContext
from multiprocessing.util import Finalize
from pathlib import Path
from types import ModuleType
from typing import Any

from bench.options import Options
from bench.peers import Peer, spawn_with
from bench.readers import Readers


def message_queue() -> Any:
    """Return the class.

    Its module runs as it is installed. The packages around it are replaced by empty ones, because they import
    all of vLLM and its hundred dependencies.
    """
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    if "vllm" not in sys.modules:
        found = importlib.util.find_spec("vllm")
        assert found is not None
        for name in ("vllm", "vllm.distributed"):
            package = ModuleType(name)
            places = found.submodule_search_locations or ()
            package.__path__ = [str(Path(place, *name.split(".")[1:])) for place in places]
            sys.modules[name] = package
    return importlib.import_module("vllm.distributed.device_communicators.shm_broadcast").MessageQueue


def _open(handle: bytes, rank: int) -> Any:
    """Return the reading end of a message queue."""
    queue = message_queue().create_from_handle(pickle.loads(handle), rank)
    queue.wait_until_ready()
    return queue


def _messages(handle: bytes, rank: int) -> Iterator[Any]:
    queue = _open(handle, rank)
    while True:
        yield queue.dequeue(indefinite=True)


class Direction:
    """A MessageQueue from one process to another with the methods of a SimpleQueue.

    The process that puts makes it, and sends its handle to the one that gets.
    """

    def __init__(self) -> None:
        self._handles = multiprocessing.get_context("spawn").SimpleQueue()
        self._queue: Any = None

    def put(self, message: Any) -> None:
        if self._queue is None:
            self._queue = message_queue()(1, 1)
            self._handles.put(pickle.dumps(self._queue.export_handle()))
            self._queue.wait_until_ready()
            # Its destructor removes the ring. At exit, Python does not call it if it is still referred to.
            Finalize(None, self.close, exitpriority=0)
        self._queue.enqueue(message)

    def get(self) -> Any:
        if self._queue is None:
            self._queue = _open(self._handles.get(), 0)
        return self._queue.dequeue(indefinite=True)

    def close(self) -> None:
        self._queue = None
        self._handles.close()


class Vllm(Peer):
    """Private arrays; copies in the ring and in each reader."""

    def context(self) -> BaseContext:
        return spawn_with(Direction)

    def readers(self, count: int, options: Options) -> Readers:
        queue = message_queue()(count, count)
        handle = pickle.dumps(queue.export_handle())

        def connect() -> Any:
            queue.wait_until_ready()
            return queue.enqueue

        return Readers([partial(_messages, handle, rank) for rank in range(count)], connect, options)

    def one_reader(self, options: Options) -> Readers:
        return self.readers(1, options)


PEER = Vllm
