"""The number of tensors that can live in two processes before an error."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from bench.consumer import consumer_process
from bench.model import Case, Goal, Measure, Probe, Row, Samples
from bench.options import Options
from bench.peers import Peer, load_peer
from bench.rows import rows_of

ENOUGH = 200_000
DESCRIPTORS = 1024  # the default soft limit of most systems
NBYTES = 4096
STEP = 100


def _keep(peer: Peer, inbox: Any, outbox: Any) -> None:
    """Keep everything received, until an error."""
    kept = []
    try:
        while (message := inbox.get()) is not None:
            kept.extend(peer.receive(one) for one in message)
            outbox.put(len(kept))
    except Exception:
        outbox.put(None)
        inbox.get()


@contextmanager
def _probe(peer_name: str, options: Options) -> Iterator[Probe]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, hard))
    peer = load_peer(peer_name)
    enough = 200 if options.quick else ENOUGH

    def measure(_variant: str) -> Measure:
        items: list[Any] = []
        reached = 0
        with consumer_process(peer, options, _keep) as there:
            with contextlib.suppress(Exception):  # any error ends the measurement
                while reached < enough:
                    more = [peer.fresh(NBYTES) for _ in range(STEP)]
                    items += more
                    if there.hand_over([peer.message(one) for one in more]) is None:
                        break
                    reached += STEP
            for item in items:
                peer.dispose(item)
        return {"count": reached}

    yield measure


def _rows(samples: Samples) -> list[Row]:
    goals = {"4 KiB": Goal(ENOUGH, at_least=True)}
    rows = rows_of(samples, ["4 KiB"], CASE.peers, "count", unit="tensors", scale=1, goals=goals)
    return [replace(row, what=f"{DESCRIPTORS} descriptors allowed") for row in rows]


CASE = Case(
    name="most",
    summary=f"tensors of {NBYTES} bytes in two processes until an error; {ENOUGH:,} are enough",
    peers=("shmtensor", "shmtensor-fs", "SharedMemory", "torch-fd", "torch-fs"),
    variants=lambda _peer, _options: ["4 KiB"],
    probe=_probe,
    rows=_rows,
    rounds=1,
    warm_up=0,
    timeout=300.0,
)
