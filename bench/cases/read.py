"""A consumer's first full read of a tensor, and its second."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import shmtensor
from bench.consumer import consumer_process
from bench.model import Case, Goal, Measure, Probe, Row, Samples, Summary
from bench.options import Options
from bench.peers import PEERS, Peer, load_peer

NBYTES = 256 << 20


def _read(peer: Peer, inbox: Any, outbox: Any) -> None:
    """Sum each message's bytes twice; answer with the sum and both times."""
    while (message := inbox.get()) is not None:
        received = peer.receive(message)
        array = peer.array(received).view("u8")
        times, total = [], 0
        for _ in range(2):
            start = time.perf_counter()
            total = int(array.max())
            times.append(time.perf_counter() - start)
        del array, message
        peer.drop(received)
        received = None
        outbox.put((total, *times))


@contextmanager
def _probe(peer_name: str, options: Options) -> Iterator[Probe]:
    peer = load_peer(peer_name)
    nbytes = 1 << 16 if options.quick else NBYTES

    def measure(_variant: str) -> Measure:
        # Use other pages each time, as the peers provide them: the speed of single pages varies.
        if "shmtensor" in peer_name:
            shmtensor.gc()
        item = peer.fresh(nbytes)
        received = peer.receive(peer.message(item))
        peer.array(received).view("u8")[:] = 7
        peer.drop(received)
        with consumer_process(peer, options, _read) as consumer:  # a new consumer has read nothing yet
            total, first, second = consumer.hand_over(peer.message(item))
        peer.dispose(item)
        assert total == 7, "the consumer read something else"
        return {"first": first, "second": second}

    yield measure


def _rows(samples: Samples) -> list[Row]:
    rows = []
    torch = None
    if samples.has("torch-fd", "256 MiB"):
        torch = Summary.of(samples.values("torch-fd", "256 MiB", "first"), 1e3).median
    for peer in PEERS:
        if not samples.has(peer, "256 MiB"):
            continue
        first = Summary.of(samples.values(peer, "256 MiB", "first"), 1e3)
        goal = Goal(0.5, "ratio") if peer == "shmtensor" and torch else None
        rows.append(Row("first read", peer, "ms", first, first.median / torch if torch else None, goal))
        second = Summary.of(samples.values(peer, "256 MiB", "second"), 1e3)
        rows.append(Row("second read", peer, "ms", second))
    return rows


CASE = Case(
    name="read",
    summary="a new consumer reads 256 MiB",
    peers=("shmtensor", "shmtensor-fs", "SharedMemory", "torch-fd", "torch-fs"),
    variants=lambda _peer, _options: ["256 MiB"],
    probe=_probe,
    rows=_rows,
    baseline="torch's first read",
    rounds=7,
)
