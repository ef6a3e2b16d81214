"""Ray's compiled graph: a method of an actor, called through Ray's channels in shared memory.

An array is copied into the channel's buffer; the method receives a view of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import ray
from ray.dag import InputNode

from bench.options import Options
from bench.peers import Consumer, Peer

STORE = 1 << 30  # bytes
BUFFER = 65 << 20  # bytes of a channel: the largest message, so that none is made larger in a measurement


@contextmanager
def running_ray(options: Options) -> Iterator[None]:
    """Start Ray on this machine; its own processes are not pinned."""
    os.sched_setaffinity(0, options.processors)
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=STORE,
        logging_level="error",
        log_to_driver=False,
    )
    options.place(0)
    try:
        yield
    finally:
        ray.shutdown()


class Taker:
    """The actor."""

    def __init__(self, options_text: str) -> None:
        self._options: Options | None = Options.from_text(options_text)

    def pid(self) -> int:
        return os.getpid()

    def take(self, _message: Any) -> bytes:
        if self._options is not None:  # the graph runs in a thread of its own, which is to be pinned
            self._options.place(1)
            self._options = None
        return b""


class Graph:
    """One execution of the graph for each message."""

    def __init__(self, graph: Any, pid: int) -> None:
        self._graph = graph
        self.process = SimpleNamespace(pid=pid)

    def hand_over(self, message: Any) -> object:
        return ray.get(self._graph.execute(message))


class RayGraph(Peer):
    """Private arrays; copies in the channel."""

    @contextmanager
    def consumer(self, options: Options, _serve: object = None) -> Iterator[Consumer]:
        with running_ray(options):
            actor = ray.remote(Taker).remote(options.to_text())
            pid = ray.get(actor.pid.remote())
            with InputNode() as message:
                node = actor.take.bind(message)
            graph = node.experimental_compile(_buffer_size_bytes=BUFFER)
            try:
                yield Graph(graph, pid)
            finally:
                graph.teardown()


PEER = RayGraph
