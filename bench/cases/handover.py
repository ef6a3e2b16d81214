"""A put, its get and the acknowledgement, compared with 64 bytes on the same queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from bench.consumer import BASELINE
from bench.model import Case, Goal, Measure, Probe, Row, Samples, Summary
from bench.options import Options
from bench.peers import PEERS, Consumer, Peer, load_peer
from bench.rows import rows_beside_bytes, rows_of
from bench.timing import alternate

SIZES = {"4 KiB": 1 << 12, "1 MiB": 1 << 20, "64 MiB": 1 << 26, "1 GiB": 1 << 30}
# Peers that copy the bytes through a pipe, or a ring of limited size, take seconds for a GiB.
UP_TO_64_MIB = ("pickle", "faster-fifo", "ray-graph", "vllm", "iceoryx2")
KINDS = ("same", "fresh")
BUDGET = 0.15  # seconds for one measurement


def _variants(peer: str, options: Options) -> list[str]:
    sizes = ["4 KiB"] if options.quick else list(SIZES)
    if peer in UP_TO_64_MIB:
        sizes = sizes[:3]
    kinds = KINDS[1:] if peer == "iceoryx2" else KINDS  # a sample that was sent cannot be sent again
    return [f"{size}, {kind}" for size in sizes for kind in kinds]


@contextmanager
def _probe(peer_name: str, options: Options) -> Iterator[Probe]:
    peer = load_peer(peer_name)
    with peer.consumer(options) as there:
        kept: dict[str, object] = {}

        def measure(variant: str) -> Measure:
            size, kind = variant.split(", ")
            if kind == "same" and size not in kept:
                kept[size] = peer.fresh(SIZES[size])
            send = _same(peer, there, kept[size]) if kind == "same" else send_fresh(peer, there, SIZES[size])
            send()  # steady state: memory that was idle while others were measured has lost its pages
            return alternate(
                {"tensor": send, "bytes": lambda: there.hand_over(BASELINE)},
                budget=0.01 if options.quick else BUDGET,
            )

        yield measure
        for item in kept.values():
            peer.dispose(item)


def _same(peer: Peer, there: Consumer, item: object) -> Callable[[], object]:
    return lambda: there.hand_over(peer.message(item))


def send_fresh(peer: Peer, there: Consumer, nbytes: int) -> Callable[[], object]:
    """Return what sends a new tensor: its creation and release are measured, too, but not filling it."""

    def send() -> None:
        item = peer.fresh(nbytes)
        there.hand_over(peer.message(item))
        peer.dispose(item)

    return send


def _rows(samples: Samples) -> list[Row]:
    rows = rows_beside_bytes(samples, _variants("", Options()), tuple(PEERS), goal=Goal(1.2, "ratio"))
    alone = rows_of(samples, ["4 KiB, fresh"], PEERS, "bytes")
    return rows + [replace(row, what="64 bytes") for row in alone] + _rows_to_torch(samples)


def _rows_to_torch(samples: Samples) -> list[Row]:
    """Return rows with the time of torch's default strategy relative to shmtensor's."""
    rows = []
    for variant in _variants("", Options()):
        if samples.has("shmtensor", variant) and samples.has("torch-fd", variant):
            ours, torch = (samples.values(peer, variant, "tensor") for peer in ("shmtensor", "torch-fd"))
            times = Summary.of([slow / fast for slow, fast in zip(torch, ours, strict=False)])
            goal = Goal(15, at_least=True)
            rows.append(Row(f"{variant}: torch-fd to it", "shmtensor", "times", times, goal=goal))
    return rows


CASE = Case(
    name="handover",
    summary="put, get and acknowledge one tensor over SimpleQueue, or what the peer has for it",
    peers=tuple(PEERS),
    variants=_variants,
    probe=_probe,
    rows=_rows,
    baseline="64 bytes the same way",
)
