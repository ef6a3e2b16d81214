"""A tensor to several readers of one broadcast: processor time of all processes together, and time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from bench.model import Case, Goal, Measure, Probe, Row, Samples
from bench.options import Options
from bench.peers import SPINNING_PEERS, load_peer
from bench.readers import Readers
from bench.rows import rows_of

NBYTES = 1 << 20
READERS = (1, 4)
CALM = 1.5  # seconds after which the other readers of a peer that spins sleep
FAST, PACED, ROUNDS = "as fast as possible", "one per ms", "acknowledged by all"
TIMES = {FAST: 5000, PACED: 1000, ROUNDS: 1000}
GOAL = Goal(5, "ratio")


def _variants(_peer: str, options: Options) -> list[str]:
    paces = [FAST, ROUNDS] if options.quick else TIMES
    return [f"to {count}, {pace}" for count in READERS for pace in paces]


def _cost(readers: Readers, make: Callable[[], object], times: int, seconds: float) -> tuple[float, float]:
    """Return the processor time of a message, of all processes, and its time (`seconds` or more)."""
    readers.settle()
    before, start = readers.processor_time(), time.perf_counter()
    for turn in range(times):
        if seconds:
            time.sleep(max(start + turn * seconds - time.perf_counter(), 0))
        readers.put(make())
    readers.settle()
    return (readers.processor_time() - before) / times, (time.perf_counter() - start) / times


def _round(readers: Readers, make: Callable[[], object], times: int) -> float:
    """Return the time until all readers have acknowledged a message."""
    readers.acknowledge_each(each=True)
    start = time.perf_counter()
    for _ in range(times):
        readers.put(make())
        readers.wait()
    elapsed = time.perf_counter() - start
    readers.acknowledge_each(each=False)
    return elapsed / times


@contextmanager
def _probe(peer_name: str, options: Options) -> Iterator[Probe]:
    peer: Any = load_peer(peer_name)
    with ExitStack() as stack:
        one = peer.one_reader(options)
        stack.callback(one.close)
        many = {count: peer.readers(count, options) for count in READERS}
        for channel in many.values():
            stack.callback(channel.close)

        def fresh() -> object:
            return peer.message(peer.fresh(NBYTES))

        def calm() -> None:
            if peer_name in SPINNING_PEERS:
                time.sleep(CALM)

        def measure(variant: str) -> Measure:
            to, _, pace = variant.partition(", ")
            times = 20 if options.quick else TIMES[pace]
            readers = many[int(to.split()[1])]
            calm()
            if pace == ROUNDS:
                return {"time": _round(readers, fresh, times)}
            seconds = 1e-3 if pace == PACED else 0.0
            alone, _ = _cost(one, fresh, times, seconds)
            calm()
            used, elapsed = _cost(readers, fresh, times, seconds)
            return {"one": alone, "used": used, "time": elapsed}

        yield measure


def _rows(samples: Samples) -> list[Row]:
    variants, peers = _variants("", Options()), CASE.peers
    sends = [variant for variant in variants if not variant.endswith(ROUNDS)]
    goals = {variant: GOAL for variant in sends if variant.startswith("to 4")}
    used = rows_of(samples, sends, peers, "used", base="one", goals=goals)
    times = rows_of(samples, [variant for variant in variants if not variant.endswith(PACED)], peers, "time")
    return [
        replace(row, what=f"{row.what}: {what}")
        for rows, what in ((used, "processor time"), (times, "time"))
        for row in rows
    ]


CASE = Case(
    name="broadcast",
    summary="a fresh tensor of 1 MiB to readers of a broadcast: time, and processor time of all processes",
    peers=("shmtensor", "vllm"),
    variants=_variants,
    probe=_probe,
    rows=_rows,
    baseline="processor time of a queue to one process",
    rounds=7,
)
