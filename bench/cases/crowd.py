"""The cost of a hand-over while many processes run, each with its own arena."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from bench.consumer import BASELINE, consumer_process
from bench.model import Case, Goal, Measure, Probe
from bench.options import Options
from bench.peers import Peer, load_peer
from bench.rows import rows_many_beside_few
from bench.timing import alternate

MANY = 64


def _variants(_peer: str, options: Options) -> list[str]:
    return [f"{count} processes" for count in (2, 4 if options.quick else MANY)]


def _hold(peer: Peer, inbox: Any, outbox: Any) -> None:
    """Keep the other process's tensor and send one, so that both processes have both arenas."""
    theirs = inbox.get()
    own = peer.fresh(4096)
    outbox.put(own)
    while inbox.get() is not None:
        pass
    del theirs, own


@contextmanager
def _probe(peer_name: str, options: Options) -> Iterator[Probe]:
    peer = load_peer(peer_name)
    tensor = peer.fresh(4096)
    with consumer_process(peer, options) as consumer:

        def measure(variant: str) -> Measure:
            with ExitStack() as stack:
                others = int(variant.split(maxsplit=1)[0]) - 2  # the two measuring processes count, too
                crowd = [stack.enter_context(consumer_process(peer, options, _hold)) for _ in range(others)]
                theirs = [one.hand_over(tensor) for one in crowd]
                found = hand_over()
                del theirs
            return found

        def hand_over() -> Measure:
            return alternate(
                {
                    "send": lambda: consumer.hand_over(peer.fresh(4096)),
                    "bytes": lambda: consumer.hand_over(BASELINE),
                },
                budget=0.01 if options.quick else 0.3,
                at_most=4_000,
            )

        yield measure


CASE = Case(
    name="crowd",
    summary="make, hand over and release 4 KiB while 62 other processes share tensors with the producer",
    peers=("shmtensor", "shmtensor-fs"),
    variants=_variants,
    probe=_probe,
    rows=lambda samples: rows_many_beside_few(
        samples, *_variants("", Options()), CASE.peers, Goal(1.1, "ratio")
    ),
    baseline="two processes alone",
    rounds=5,
)
