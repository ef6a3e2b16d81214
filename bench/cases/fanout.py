"""One tensor to several workers: from the first put until the last has acknowledged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from bench.consumer import BASELINE, consumer_process
from bench.model import Case, Measure, Probe
from bench.options import Options
from bench.peers import MULTIPROCESSING_PEERS, load_peer
from bench.rows import rows_beside_bytes
from bench.timing import alternate

WORKERS = (1, 2, 4, 8)
NBYTES = 1 << 20


def _counts(options: Options) -> tuple[int, ...]:
    return WORKERS[:2] if options.quick else WORKERS


def _variants(_peer: str, options: Options) -> list[str]:
    return [f"to {count}" for count in _counts(options)]


@contextmanager
def _probe(peer_name: str, options: Options) -> Iterator[Probe]:
    peer = load_peer(peer_name)
    with ExitStack() as stack:
        workers = [stack.enter_context(consumer_process(peer, options)) for _ in range(max(_counts(options)))]

        def to(count: int, message: Any) -> None:
            for worker in workers[:count]:
                worker.inbox.put(message)
            for worker in workers[:count]:
                worker.outbox.get()

        def fresh(count: int) -> None:
            item = peer.fresh(NBYTES)
            to(count, peer.message(item))
            peer.dispose(item)

        def measure(variant: str) -> Measure:
            count = int(variant.split()[1])
            return alternate(
                {"tensor": lambda: fresh(count), "bytes": lambda: to(count, BASELINE)},
                budget=0.01 if options.quick else 0.2,
            )

        yield measure


CASE = Case(
    name="fanout",
    summary="a fresh tensor of 1 MiB to several workers, a queue each, until all have acknowledged",
    peers=(*MULTIPROCESSING_PEERS, "faster-fifo"),
    variants=_variants,
    probe=_probe,
    rows=lambda samples: rows_beside_bytes(samples, _variants("", Options()), CASE.peers),
    baseline="64 bytes to as many",
    rounds=7,
)
