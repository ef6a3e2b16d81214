"""Many tensors in one message: what each costs, both sides together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench.model import Case, Goal, Measure, Probe, Row, Samples, Summary
from bench.options import Options
from bench.partner import partner
from bench.peers import PEERS, load_peer
from bench.timing import alternate

__all__ = ["CASE"]

COUNTS = (1_000, 10_000, 100_000)
NBYTES = 4096
# A segment for each tensor: more than these take minutes, or more mappings than the kernel allows.
MOST = {"SharedMemory": 1_000, "torch-fd": 1_000, "torch-fs": 10_000, "pickle": 10_000}
GOALS = {1_000: Goal(2.0), 10_000: Goal(2.0), 100_000: Goal(2.0)}


def _variants(peer: str, options: Options) -> list[str]:
    if options.quick:
        return ["10, same", "10, fresh"]
    most = MOST.get(peer, COUNTS[-1])
    return [f"{count}, {kind}" for count in COUNTS if count <= most for kind in ("same", "fresh")]


@contextmanager
def _probe(peer_name: str, options: Options) -> Iterator[Probe]:
    peer = load_peer(peer_name)
    with partner(peer, options) as consumer:

        def measure(variant: str) -> Measure:
            text, kind = variant.split(", ")
            count = int(text)
            times: list[float] = []
            for _ in range(3 if count <= 1_000 and not options.quick else 1):
                items = [peer.fresh(NBYTES) for _ in range(count)]
                send = [peer.message(item) for item in items]
                if kind == "same":  # once before the clock starts
                    consumer.hand_over(send)
                found = alternate({"all": lambda: consumer.hand_over(send)}, budget=0, at_least=1)  # noqa: B023
                times.append(found["all"] / count)
                del send
                for item in items:
                    peer.dispose(item)
            return {"each": min(times)}

        yield measure


def _rows(samples: Samples) -> list[Row]:
    rows = []
    for variant in _variants("shmtensor", Options()):
        for peer in PEERS:
            if not samples.has(peer, variant):
                continue
            times = Summary.of(samples.values(peer, variant, "each"), 1e6)
            goal = GOALS[int(variant.split(",")[0])] if peer == "shmtensor" else None
            rows.append(Row(variant, peer, "us each", times, goal=goal))
    return rows


CASE = Case(
    name="list",
    summary=f"tensors of {NBYTES} bytes in one message, for each of them, both sides together",
    peers=tuple(PEERS),
    variants=_variants,
    probe=_probe,
    rows=_rows,
    rounds=7,
)
