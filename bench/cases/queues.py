"""Queues: round trips, the rate of small messages, and the processor time of a consumer that waits."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bench.consumer import BASELINE
from bench.model import Case, Measure, Probe, Row, Samples
from bench.options import Options
from bench.peers import Peer, load_peer
from bench.rows import rows_of
from bench.timing import alternate, p99, used, without_collector

SIZES = {"1 KiB tensor": 1 << 10, "8 MiB tensor": 8 << 20}
MANY, MANY_NBYTES = 100, 1 << 10
TRIPS = {"1 KiB tensor": 1000, "8 MiB tensor": 200, "list of 100 tensors": 200}
SECONDS = 2.0  # after which no round trip begins
INTS, BATCH = 50_000, 100
IDLE = 10.0  # seconds
TRICKLE = 2.0  # seconds
PEERS = (
    *("shmtensor-queue", "shmtensor", "pickle", "pickle-queue", "torch-fd", "faster-fifo"),
    *("iceoryx2", "ray-graph", "vllm"),
)
UNITS = {
    "64 bytes": "us",
    **dict.fromkeys(TRIPS, "us"),
    "small ints": "us each",
    "waiting, idle": "% of a processor",
    "waiting, one per ms": "% of a processor",
}


def _variants(peer: str, _options: Options) -> list[str]:
    if peer == "iceoryx2":  # it has no queue, and its consumer takes one sample at a time
        return ["64 bytes", *SIZES]
    if peer == "ray-graph":  # each message has an answer
        return [variant for variant in UNITS if variant != "small ints"]
    return list(UNITS)


def _serve(peer: Peer, inbox: Any, outbox: Any) -> None:
    """Receive messages and acknowledge them, until None is received; a number of ints as one message."""
    while (message := inbox.get()) is not None:
        if type(message) is int:
            _take(inbox, message)
        elif type(message) is list:
            for received in [peer.receive(one) for one in message]:
                peer.drop(received)
        elif type(message) is not bytes:
            peer.drop(peer.receive(message))
        message = received = None
        outbox.put(b"")


def _take(queue: Any, count: int) -> None:
    if hasattr(queue, "get_many"):
        while count > 0:
            count -= len(queue.get_many(count))
    else:
        for _ in range(count):
            queue.get()


def _put(queue: Any, count: int) -> None:
    if hasattr(queue, "put_many"):
        for start in range(0, count, BATCH):
            queue.put_many(list(range(start, start + BATCH)))
    else:
        for number in range(count):
            queue.put(number)


def _round_trip(peer: Peer, hand_over: Callable[[Any], object], variant: str, times: int) -> Measure:
    """Return the time of a message there and an acknowledgement back; making it does not count."""
    clock, found = time.perf_counter, []
    end = clock() + SECONDS
    while len(found) < times and clock() < end:
        if variant in SIZES:
            items = [peer.fresh(SIZES[variant])]
            message = peer.message(items[0])
        else:
            items = [peer.fresh(MANY_NBYTES) for _ in range(MANY)]
            message = [peer.message(item) for item in items]
        start = clock()
        hand_over(message)
        found.append(clock() - start)
        message = None
        for item in items:
            peer.dispose(item)
    return {"time": statistics.median(found), "time p99": p99(found)}


def _rate(there: Any, count: int) -> float:
    with without_collector():
        start = time.perf_counter()
        there.inbox.put(count)
        _put(there.inbox, count)
        there.outbox.get()
        return (time.perf_counter() - start) / count


def _waiting(pid: int, seconds: float, each: Callable[[], object] | None) -> float:
    """Return the part of a processor that the consumer uses, with a call of `each` per millisecond."""
    start = time.perf_counter()
    before = used(pid)
    if each is None:
        time.sleep(seconds)
    else:
        for turn in range(round(seconds * 1000)):
            time.sleep(max(start + turn / 1000 - time.perf_counter(), 0))
            each()
    return (used(pid) - before) / (time.perf_counter() - start)


@contextmanager
def _probe(peer_name: str, options: Options) -> Iterator[Probe]:
    peer = load_peer(peer_name)
    with peer.consumer(options, _serve) as started:
        there: Any = started
        quick = options.quick

        def measure(variant: str) -> Measure:
            if variant == "64 bytes":
                budget = 0.01 if quick else 0.5
                return alternate({"time": lambda: there.hand_over(BASELINE)}, budget=budget, at_most=5000)
            if variant in TRIPS:
                times = 2 if quick else TRIPS[variant]
                with without_collector():
                    return _round_trip(peer, there.hand_over, variant, times)
            if variant == "small ints":
                return {"time": _rate(there, BATCH if quick else INTS)}
            if variant == "waiting, idle":
                return {"time": _waiting(there.process.pid, 0.1 if quick else IDLE, None)}

            def one() -> None:
                there.hand_over(BASELINE)

            return {"time": _waiting(there.process.pid, 0.02 if quick else TRICKLE, one)}

        yield measure


def _rows(samples: Samples) -> list[Row]:
    rows = []
    for variant, unit in UNITS.items():
        scale = 100 if unit.startswith("%") else 1e6
        rows += rows_of(samples, [variant], PEERS, "time", unit=unit, scale=scale)
    return rows


CASE = Case(
    name="queue",
    summary="a message to another process and an answer; small ints in one direction; a consumer that waits",
    peers=PEERS,
    variants=_variants,
    probe=_probe,
    rows=_rows,
    rounds=5,
)
