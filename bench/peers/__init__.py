"""The ways to hand an array to another process, with one common protocol; one file each."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import multiprocessing
from collections.abc import Callable
from contextlib import AbstractContextManager
from multiprocessing.context import BaseContext
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bench.consumer import Server, acknowledge, consumer_process
from bench.options import Options

Array = npt.NDArray[np.uint8]


class Consumer(Protocol):
    """Another process that receives a message, releases its tensors and acknowledges it."""

    def hand_over(self, message: Any) -> object:
        """Send a message and wait for the answer."""


class Peer:
    """A way to hand over an array; by default, a private one is copied into a message of multiprocessing.

    An `item` is what the producer keeps, a `message` what is sent. A peer with a broadcast also has methods
    that start its readers on the other processor: `readers(count, options)`, and `one_reader(options)` with
    its queue to one process.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def context(self) -> BaseContext:
        """Return the start method `spawn` of the peer's own multiprocessing."""
        return multiprocessing.get_context("spawn")

    def __reduce__(self) -> Any:
        return load_peer, (self.name,)

    def consumer(self, options: Options, serve: Server = acknowledge) -> AbstractContextManager[Consumer]:
        """Start a consumer on the other processor; `serve` is for one that multiprocessing connects."""
        return consumer_process(self, options, serve)

    def fresh(self, nbytes: int) -> Any:
        """Return an item of that size, uninitialized, ready to be sent."""
        return np.empty(nbytes, np.uint8)

    def copy_in(self, array: Array) -> Any:
        """Return an item with the array's bytes."""
        return array.copy()

    def message(self, item: Any) -> Any:
        """Return the object that is put into a queue."""
        return item

    def receive(self, message: Any) -> Any:
        """Return the consumer's object, through which the memory can be used."""
        return message

    def array(self, received: Any) -> Array:
        """Return the bytes of the received object."""
        return np.asarray(received)

    def drop(self, received: Any) -> None:
        """Release the received object."""

    def dispose(self, item: Any) -> None:
        """Release an item in the producer."""


def spawn_with(queue: Callable[[], Any]) -> Any:
    """Return the start method `spawn` with another class of queues."""
    return SimpleNamespace(Process=multiprocessing.get_context("spawn").Process, SimpleQueue=queue)


# Name -> module, None for an executor, and the package it needs. A module has the class `PEER`.
PEERS: dict[str, tuple[str | None, str | None]] = {
    "shmtensor": ("shmtensor", "shmtensor"),
    "shmtensor-fs": ("shmtensor", "shmtensor"),
    "shmtensor-queue": ("shmtensor", "shmtensor"),
    "pickle": ("pickled", None),
    "pickle-queue": ("pickled", None),
    "SharedMemory": ("standard", None),
    "torch-fd": ("torch_tensors", "torch"),
    "torch-fs": ("torch_tensors", "torch"),
    "faster-fifo": ("fifo", "faster_fifo"),
    "ray-graph": ("ray_graph", "ray"),
    "vllm": ("vllm_queue", "vllm"),
    "iceoryx2": ("iceoryx", "iceoryx2"),
    "loky": (None, "loky"),
    "pebble": (None, "pebble"),
}

SPINNING_PEERS = ("ray-graph", "vllm")
"""The peers whose consumer uses a processor while it waits, so that it slows other peers down."""

MULTIPROCESSING_PEERS = ("shmtensor", "shmtensor-fs", "pickle", "SharedMemory", "torch-fd", "torch-fs")
"""The peers that every multiprocessing case can measure."""


def missing(name: str) -> str | None:
    """Return why a peer cannot take part; None if it can."""
    package = PEERS[name][1]
    if package is None or importlib.util.find_spec(package) is not None:
        return None
    return f"{package} is not installed"


@functools.cache
def load_peer(name: str) -> Peer:
    """Return a peer; its package is imported now."""
    peer: Peer = importlib.import_module(f"bench.peers.{PEERS[name][0]}").PEER(name)
    return peer
