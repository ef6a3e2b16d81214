"""Time to create and release a tensor of 4 KiB in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from bench.model import Case, Goal, Measure, Probe
from bench.options import Options
from bench.peers import load_peer
from bench.rows import rows_of
from bench.timing import per_call

PEERS_HERE = ("shmtensor", "shmtensor-fs", "SharedMemory", "torch-fd", "torch-fs")
FLOATS = 512


def _shmtensor(count: int) -> None:
    import shmtensor as st

    empty = st.empty
    for _ in range(count):
        empty(FLOATS)


def _numpy(count: int) -> None:
    empty = np.empty
    for _ in range(count):
        empty(FLOATS)


def _turns(peer_name: str) -> Callable[[int], None]:
    if peer_name.startswith("shmtensor"):
        return _shmtensor
    peer = load_peer(peer_name)

    def run(count: int) -> None:
        for _ in range(count):
            peer.dispose(peer.fresh(FLOATS * 8))

    return run


@contextmanager
def _probe(peer_name: str, options: Options) -> Iterator[Probe]:
    load_peer(peer_name)
    run = _turns(peer_name)
    count = 20 if options.quick else 20_000 if peer_name.startswith("shmtensor") else 500

    def measure(_variant: str) -> Measure:
        run(10)
        return {"shared": per_call(run, count), "private": per_call(_numpy, count)}

    yield measure


CASE = Case(
    name="alloc",
    summary="make an uninitialized tensor of 4 KiB and release it",
    peers=PEERS_HERE,
    variants=lambda _peer, _options: ["4 KiB"],
    probe=_probe,
    rows=lambda samples: rows_of(
        samples, ["4 KiB"], PEERS_HERE, "shared", base="private", goals={"4 KiB": Goal(1.5)}
    ),
    baseline="np.empty of the same size",
)
