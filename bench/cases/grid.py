"""The cost of a message with several busy producers and consumers on one queue."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from bench.consumer import BASELINE, consumer_process
from bench.model import Case, Measure, Probe
from bench.options import Options
from bench.peers import MULTIPROCESSING_PEERS, Peer, load_peer
from bench.rows import rows_beside_bytes

SIDES = (1, 2, 4)
NBYTES = 1 << 16
MESSAGES = 240  # in all, shared by the producers


def _variants(_peer: str, options: Options) -> list[str]:
    sides = SIDES[:2] if options.quick else SIDES
    return [f"{producers} to {consumers}" for producers in sides for consumers in sides]


def _produce(shared: Any, peer: Peer, inbox: Any, outbox: Any) -> None:
    """Put the requested number of messages, bytes or tensors; keep the tensors until all have arrived."""
    while (order := inbox.get()) is not None:
        what, count = order
        items = []
        for _ in range(count):
            if what == "bytes":
                shared.put(BASELINE)
            else:
                items.append(peer.fresh(NBYTES))
                shared.put(peer.message(items[-1]))
        outbox.put("all put")
        inbox.get()
        for item in items:
            peer.dispose(item)
        items = item = None
        outbox.put("all gone")


def _consume(shared: Any, peer: Peer, inbox: Any, outbox: Any) -> None:
    """Receive messages until None; report their number."""
    while inbox.get() is not None:
        count = 0
        while (message := shared.get()) is not None:
            count += 1
            if type(message) is not bytes:
                received = peer.receive(message)
                peer.drop(received)
            message = received = None
        outbox.put(count)


@contextmanager
def _probe(peer_name: str, options: Options) -> Iterator[Probe]:
    peer = load_peer(peer_name)
    context: Any = peer.context()
    shared = context.SimpleQueue()
    total = 24 if options.quick else MESSAGES
    anywhere = Options(quick=options.quick, pin="none", processors=options.processors)
    with ExitStack() as stack:
        most = max(int(variant.split()[0]) for variant in _variants(peer_name, options))

        def started(serve: Any) -> list[Any]:
            return [
                stack.enter_context(consumer_process(peer, anywhere, partial(serve, shared)))
                for _ in range(most)
            ]

        producers, consumers = started(_produce), started(_consume)

        def seconds(what: str, sending: list[Any], taking: list[Any]) -> float:
            for one in taking:
                one.inbox.put("take")
            start = time.perf_counter()
            for one in sending:
                one.inbox.put((what, total // len(sending)))
            for one in sending:
                one.outbox.get()
            for _ in taking:
                shared.put(None)
            counts = [one.outbox.get() for one in taking]
            elapsed = time.perf_counter() - start
            assert sum(counts) == total
            for one in sending:
                one.hand_over("all arrived")
            return elapsed / total

        def measure(variant: str) -> Measure:
            left, right = (int(word) for word in variant.split(" to "))
            return {what: seconds(what, producers[:left], consumers[:right]) for what in ("tensor", "bytes")}

        yield measure
    shared.close()


CASE = Case(
    name="grid",
    summary=f"producers to consumers on one queue, {MESSAGES} fresh tensors of 64 KiB in all, not pinned",
    peers=MULTIPROCESSING_PEERS,
    variants=_variants,
    probe=_probe,
    rows=lambda samples: rows_beside_bytes(samples, _variants("", Options()), CASE.peers, "us each"),
    baseline="64 bytes for each",
    rounds=7,
)
