"""The cost of a send while many blocks are live."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.consumer import BASELINE, consumer_process
from bench.model import Case, Goal, Measure, Probe
from bench.options import Options
from bench.peers import load_peer
from bench.rows import rows_many_beside_few
from bench.timing import alternate

MANY = 1_000_000
VARIANTS = ["one live block", f"{MANY:,} live blocks"]


@contextmanager
def _probe(peer_name: str, options: Options) -> Iterator[Probe]:
    peer = load_peer(peer_name)
    live: list[Any] = []
    with consumer_process(peer, options) as consumer:

        def send() -> None:
            consumer.hand_over(peer.fresh(4096))

        def measure(variant: str) -> Measure:
            wanted = 1 if variant == VARIANTS[0] else 1_000 if options.quick else MANY
            del live[wanted:]
            live.extend(peer.fresh(64) for _ in range(wanted - len(live)))
            return alternate(
                {"send": send, "bytes": lambda: consumer.hand_over(BASELINE)},
                budget=0.01 if options.quick else 0.2,
                at_most=4_000,
            )

        yield measure
        live.clear()


CASE = Case(
    name="live",
    summary="make, hand over and release 4 KiB while other blocks are live",
    peers=("shmtensor", "shmtensor-fs"),
    variants=lambda _peer, _options: VARIANTS,
    probe=_probe,
    rows=lambda samples: rows_many_beside_few(samples, *VARIANTS, CASE.peers, Goal(1.1, "ratio")),
    baseline="one live block",
    rounds=7,
)
