"""Copying a NumPy array into shared memory, compared with np.copyto between warm buffers."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from bench.model import Case, Goal, Measure, Probe, Row, Samples, Summary
from bench.options import Options
from bench.peers import MULTIPROCESSING_PEERS, PEERS, Array, Peer, load_peer
from bench.timing import alternate

SIZES = {"64 KiB": 1 << 16, "1 MiB": 1 << 20, "16 MiB": 1 << 24, "64 MiB": 1 << 26}
COLD = "64 MiB, cold"
GOALS = dict.fromkeys(SIZES, Goal(0.95, "ratio", at_least=True))


def _variants(_peer: str, options: Options) -> list[str]:
    return ["64 KiB"] if options.quick else [*SIZES, COLD]


@contextmanager
def _probe(peer_name: str, options: Options) -> Iterator[Probe]:
    peer = load_peer(peer_name)
    sizes = {name: SIZES[name] for name in (["64 KiB"] if options.quick else SIZES)}
    sources = {name: np.ones(size, np.uint8) for name, size in sizes.items()}
    targets = {name: _at_a_page(size) for name, size in sizes.items()}

    def measure(variant: str) -> Measure:
        size = variant.removesuffix(", cold")
        source, target = sources[size], targets[size]
        cold = variant.endswith("cold")

        def copy_in() -> None:
            peer.dispose(peer.copy_in(source))

        if not cold:
            copy_in()  # steady state: the memory has been used before
        return alternate(
            {"copy": copy_in, "copyto": lambda: np.copyto(target, source)},
            budget=0 if cold or options.quick else 0.1,
            at_least=1 if cold else 5,
        ) | ({"give_back": _give_back(peer)} if not options.quick else {})

    yield measure


def _at_a_page(nbytes: int) -> Array:
    # Aligned like blocks. Some processors copy slowly if the target's offset in its page is just after the
    # source's.
    memory = np.zeros(nbytes + mmap.PAGESIZE, np.uint8)
    start = -memory.ctypes.data % mmap.PAGESIZE
    return memory[start : start + nbytes]


def _give_back(peer: Peer) -> float:
    """Make the next measurement cold if the peer keeps memory."""
    if peer.name.startswith("shmtensor"):
        import shmtensor as st

        st.gc()
    return 0.0


def _rows(samples: Samples) -> list[Row]:
    rows = []
    for variant in _variants("", Options()):
        for peer in PEERS:
            if not samples.has(peer, variant):
                continue
            nbytes = SIZES[variant.removesuffix(", cold")]
            speeds = [nbytes / t / 1e9 for t in samples.values(peer, variant, "copy")]
            ratio = Summary.of(samples.ratios(peer, variant, "copyto", "copy")).median
            goal = GOALS.get(variant) if peer == "shmtensor" else None
            rows.append(Row(variant, peer, "GB/s", Summary.of(speeds), ratio, goal))
    return rows


CASE = Case(
    name="copyin",
    summary="a warm NumPy array into shared memory, again and again; cold: the first time",
    peers=MULTIPROCESSING_PEERS,
    variants=_variants,
    probe=_probe,
    rows=_rows,
    baseline="the speed of np.copyto into warm memory",
)
