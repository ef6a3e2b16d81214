"""The cost of each of many tensors in one message, both sides together."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager

from bench.model import Case, Goal, Measure, Probe, Row, Samples
from bench.options import Options
from bench.peers import PEERS, load_peer
from bench.rows import rows_of
from bench.timing import per_call

COUNTS = (100, 1_000, 10_000, 100_000)
NBYTES = 4096
REPEATS = 3  # the first call finds memory that the previous size left cold
# One segment per tensor: more tensors take minutes, or more mappings than the kernel allows.
MOST = {
    "SharedMemory": 1_000,
    "torch-fd": 1_000,
    "torch-fs": 1_000,
    "pickle": 10_000,
    "faster-fifo": 10_000,
}
GOAL = Goal(2.0)  # from 1,000 on


def _variants(peer: str, options: Options) -> list[str]:
    if options.quick:
        return ["10, same", "10, fresh"]
    most = MOST.get(peer, COUNTS[-1])
    return [f"{count}, {kind}" for count in COUNTS if count <= most for kind in ("same", "fresh")]


@contextmanager
def _probe(peer_name: str, options: Options) -> Iterator[Probe]:
    peer = load_peer(peer_name)
    with peer.consumer(options) as there:

        def once(count: int, *, again: bool) -> float:
            items = [peer.fresh(NBYTES) for _ in range(count)]
            messages = [peer.message(item) for item in items]
            if again:  # they are sent before the measurement starts
                there.hand_over(messages)
            seconds = per_call(lambda _: there.hand_over(messages), 1)
            for item in items:
                peer.dispose(item)
            return seconds / count

        def measure(variant: str) -> Measure:
            text, kind = variant.split(", ")
            count = int(text)
            times = [once(count, again=kind == "same") for _ in range(1 if options.quick else REPEATS)]
            return {"each": statistics.median(times)}

        yield measure


def _rows(samples: Samples) -> list[Row]:
    variants = _variants("shmtensor", Options())
    goals = {variant: GOAL for variant in variants if not variant.startswith("100,")}
    return rows_of(samples, variants, PEERS, "each", unit="us each", goals=goals)


CASE = Case(
    name="list",
    summary=f"many tensors of {NBYTES} bytes in one message: what each costs, both sides together",
    peers=tuple(peer for peer in PEERS if peer != "iceoryx2"),  # each sample is a message of its own
    variants=_variants,
    probe=_probe,
    rows=_rows,
    rounds=7,
)
