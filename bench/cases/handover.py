"""From put to get and acknowledge, beside 64 bytes on the same queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.model import Case, Goal, Measure, Probe, Row, Samples, Summary
from bench.options import Options
from bench.partner import BYTES, Partner, partner
from bench.peers import PEERS, Peer, load_peer
from bench.timing import alternate

__all__ = ["CASE"]

SIZES = {"4 KiB": 1 << 12, "1 MiB": 1 << 20, "64 MiB": 1 << 26}
KINDS = ("same", "fresh")
BUDGET = 0.15  # seconds for one measurement


def _variants(_peer: str, options: Options) -> list[str]:
    sizes = ["4 KiB"] if options.quick else list(SIZES)
    return [f"{size}, {kind}" for size in sizes for kind in KINDS]


@contextmanager
def _probe(peer_name: str, options: Options) -> Iterator[Probe]:
    peer = load_peer(peer_name)
    with partner(peer, options) as consumer:
        kept = {size: peer.fresh(SIZES[size]) for size in (["4 KiB"] if options.quick else SIZES)}

        def measure(variant: str) -> Measure:
            size, kind = variant.split(", ")
            send = (
                _same(peer, consumer, kept[size]) if kind == "same" else _fresh(peer, consumer, SIZES[size])
            )
            return alternate(
                {"tensor": send, "bytes": lambda: consumer.hand_over(BYTES)},
                budget=0.01 if options.quick else BUDGET,
            )

        yield measure
        for item in kept.values():
            peer.dispose(item)


def _same(peer: Peer, consumer: Partner, item: object) -> Callable[[], object]:
    return lambda: consumer.hand_over(peer.message(item))


def _fresh(peer: Peer, consumer: Partner, nbytes: int) -> Callable[[], object]:
    """Making the tensor and letting it go are part of it; filling it is not."""

    def send() -> None:
        item = peer.fresh(nbytes)
        consumer.hand_over(peer.message(item))
        peer.dispose(item)

    return send


def _rows(samples: Samples) -> list[Row]:
    rows = []
    for variant in _variants("", Options()):
        for peer in PEERS:
            if not samples.has(peer, variant):
                continue
            ratio = Summary.of(samples.ratios(peer, variant, "tensor", "bytes")).median
            times = Summary.of(samples.values(peer, variant, "tensor"), 1e6)
            goal = Goal(1.2, "ratio") if peer == "shmtensor" else None
            rows.append(Row(variant, peer, "us", times, ratio, goal))
    for peer in PEERS:
        if samples.has(peer, "4 KiB, same"):
            times = Summary.of(samples.values(peer, "4 KiB, same", "bytes"), 1e6)
            rows.append(Row("64 bytes", peer, "us", times))
    return rows


CASE = Case(
    name="handover",
    summary="put, get and acknowledge one tensor over SimpleQueue",
    peers=tuple(PEERS),
    variants=_variants,
    probe=_probe,
    rows=_rows,
    baseline="64 bytes over the same queue",
)
