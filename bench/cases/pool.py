"""The cost of a task of `Pool.map` whose argument is an array."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from bench.consumer import BASELINE
from bench.model import Case, Measure, Probe
from bench.options import Options
from bench.peers import MULTIPROCESSING_PEERS, load_peer
from bench.rows import rows_beside_bytes
from bench.timing import per_call

WORKERS = 2
TASKS = 64
SIZES = {"4 KiB": 1 << 12, "1 MiB": 1 << 20}


def _variants(_peer: str, options: Options) -> list[str]:
    return ["4 KiB"] if options.quick else list(SIZES)


def work(peer_name: str, message: Any) -> int:
    """Read the first byte and release the tensor."""
    if isinstance(message, bytes):
        return message[0]
    peer = load_peer(peer_name)
    received = peer.receive(message)
    value = int(peer.array(received)[0])
    peer.drop(received)
    return value


@contextmanager
def _probe(peer_name: str, _options: Options) -> Iterator[Probe]:
    peer = load_peer(peer_name)
    context: Any = peer.context()
    with context.Pool(WORKERS) as pool:

        def each(messages: list[Any]) -> float:
            return per_call(lambda _: pool.map(partial(work, peer_name), messages, chunksize=1), 1) / TASKS

        def measure(variant: str) -> Measure:
            items = [peer.copy_in(np.zeros(SIZES[variant], np.uint8)) for _ in range(TASKS)]
            found = {
                "bytes": each([BASELINE] * TASKS),
                "tensor": each([peer.message(item) for item in items]),
            }
            for item in items:
                peer.dispose(item)
            return found

        yield measure


CASE = Case(
    name="pool",
    summary=f"Pool({WORKERS}).map over {TASKS} arrays, one per task",
    peers=MULTIPROCESSING_PEERS,
    variants=_variants,
    probe=_probe,
    rows=lambda samples: rows_beside_bytes(samples, _variants("", Options()), CASE.peers, "us each"),
    baseline="64 bytes for each",
    rounds=7,
)
