"""The ways to hand an array to another process, with one common protocol; one file each."""

from __future__ import annotations

import importlib
import importlib.util
from contextlib import AbstractContextManager
from multiprocessing.context import BaseContext
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from bench.options import Options

if TYPE_CHECKING:
    from bench.readers import Readers

__all__ = [
    "MULTIPROCESSING_PEERS",
    "PEERS",
    "SPINNING_PEERS",
    "Consumer",
    "Peer",
    "PeerWithConsumer",
    "PeerWithReaders",
    "load_peer",
    "missing",
]

Array = npt.NDArray[np.uint8]


class Peer(Protocol):
    """A way to hand over an array. An `item` is what the producer keeps, a `message` what is sent."""

    name: str

    def context(self) -> BaseContext:
        """Return the start method `spawn` of the peer's own multiprocessing."""

    def fresh(self, nbytes: int) -> Any:
        """Return an item of that size, uninitialized, ready to be sent."""

    def copy_in(self, array: Array) -> Any:
        """Return an item with the array's bytes."""

    def message(self, item: Any) -> Any:
        """Return the object that is put into a queue."""

    def receive(self, message: Any) -> Any:
        """Return the consumer's object, through which the memory can be used."""

    def array(self, received: Any) -> Array:
        """Return the bytes of the received object."""

    def drop(self, received: Any) -> None:
        """Release the received object."""

    def dispose(self, item: Any) -> None:
        """Release an item in the producer."""


class Consumer(Protocol):
    """Another process that receives a message, releases its tensors and acknowledges it."""

    def hand_over(self, message: Any) -> object:
        """Send a message and wait for the answer."""


@runtime_checkable
class PeerWithConsumer(Peer, Protocol):
    """A peer that does not send its messages through multiprocessing."""

    def consumer(self, options: Options) -> AbstractContextManager[Consumer]:
        """Start a consumer on the other processor."""


@runtime_checkable
class PeerWithReaders(Peer, Protocol):
    """A peer with a broadcast."""

    def readers(self, count: int, options: Options) -> Readers:
        """Start the readers of a broadcast on the other processor."""

    def one_reader(self, options: Options) -> Readers:
        """Start the reader of the peer's queue to one process on the other processor."""


# Name -> module, None for an executor, and the package it needs.
PEERS: dict[str, tuple[str | None, str | None]] = {
    "shmtensor": ("shmtensor", "shmtensor"),
    "shmtensor-fs": ("shmtensor_named", "shmtensor"),
    "shmtensor-queue": ("shmtensor_queue", "shmtensor"),
    "pickle": ("pickled", None),
    "pickle-queue": ("standard_queue", None),
    "SharedMemory": ("standard", None),
    "torch-fd": ("torch_descriptor", "torch"),
    "torch-fs": ("torch_named", "torch"),
    "faster-fifo": ("fifo", "faster_fifo"),
    "joblib": ("joblib_memmap", "joblib"),
    "ray": ("ray_store", "ray"),
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


def load_peer(name: str) -> Peer:
    """Return a peer; its package is imported now."""
    peer: Peer = importlib.import_module(f"bench.peers.{PEERS[name][0]}").PEER
    return peer
