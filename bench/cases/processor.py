"""Processor time of a hand-over, on both sides together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.cases.handover import send_fresh
from bench.consumer import BASELINE, consumer_process
from bench.model import Case, Measure, Probe
from bench.options import Options
from bench.peers import MULTIPROCESSING_PEERS, load_peer
from bench.rows import rows_beside_bytes
from bench.timing import used

SIZES = {"4 KiB": 1 << 12, "1 MiB": 1 << 20}
TIMES = 500


def _variants(_peer: str, options: Options) -> list[str]:
    return ["4 KiB, fresh"] if options.quick else [f"{size}, fresh" for size in SIZES]


@contextmanager
def _probe(peer_name: str, options: Options) -> Iterator[Probe]:
    peer = load_peer(peer_name)
    times = 10 if options.quick else TIMES
    with consumer_process(peer, options) as there:
        pids = (os.getpid(), there.process.pid)

        def each(send: Callable[[], object]) -> float:
            before = sum(map(used, pids))
            for _ in range(times):
                send()
            return (sum(map(used, pids)) - before) / times

        def measure(variant: str) -> Measure:
            fresh = send_fresh(peer, there, SIZES[variant.removesuffix(", fresh")])
            fresh()
            return {"tensor": each(fresh), "bytes": each(lambda: there.hand_over(BASELINE))}

        yield measure


CASE = Case(
    name="processor",
    summary="processor time of making, handing over and releasing a tensor, both sides together",
    peers=MULTIPROCESSING_PEERS,
    variants=_variants,
    probe=_probe,
    rows=lambda samples: rows_beside_bytes(samples, _variants("", Options()), CASE.peers),
    baseline="64 bytes the same way",
    rounds=7,
)
