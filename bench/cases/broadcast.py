"""A tensor to several readers of one broadcast: processor time of all processes together."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from bench.model import Case, Goal, Measure, Probe, Row, Samples, Summary
from bench.options import Options
from bench.peers import load_peer

__all__ = ["CASE"]

NBYTES = 1 << 20
MAXSIZE = 16
READERS = (1, 4)
PACES = {"as fast as possible": 0.0, "one per ms": 1e-3}
TIMES = {"as fast as possible": 5000, "one per ms": 1000}
GOAL = Goal(5, "ratio")


def _variants(_peer: str, options: Options) -> list[str]:
    paces = list(PACES)[:1] if options.quick else PACES
    return [f"to {count}, {pace}" for count in READERS for pace in paces]


def _used(pid: int) -> float:
    """Return the seconds that a process has run: by its clock (clock_getcpuclockid(3)), not in ticks."""
    return time.clock_gettime(~pid << 3 | 2)


def _read(options: Options, broadcast: Any, done: Any) -> None:
    """Read all that is put; a None is acknowledged."""
    options.place(1)
    for item in broadcast if not hasattr(broadcast, "reader") else broadcast.reader():
        if item is None:
            done.put(b"")
        del item


class _Channel:
    """A queue or a broadcast with its readers, which run until it is shut down."""

    def __init__(self, channel: Any, readers: int, options: Options) -> None:
        import shmtensor as st

        self.channel = channel
        self.done: Any = st.Queue()
        context: Any = load_peer("shmtensor").context()
        self.readers = [
            context.Process(target=_read, args=(options, channel, self.done), daemon=True)
            for _ in range(readers)
        ]
        for reader in self.readers:
            reader.start()
        if hasattr(channel, "wait_for_readers"):
            channel.wait_for_readers(readers, timeout=60)
        self.settle()

    def settle(self) -> None:
        """Wait until all is read."""
        self.channel.put(None)
        for _ in self.readers:
            self.done.get(timeout=60)

    def close(self) -> None:
        self.channel.shutdown()
        for reader in self.readers:
            reader.join(10)

    def cost(self, make: Callable[[], object], times: int, pace: float) -> float:
        """Return the processor time of a message, of all processes."""
        pids = [os.getpid(), *(reader.pid for reader in self.readers)]
        self.settle()
        before, start = sum(map(_used, pids)), time.perf_counter()
        for turn in range(times):
            if pace:
                time.sleep(max(start + turn * pace - time.perf_counter(), 0))
            self.channel.put(make())
        self.settle()
        return (sum(map(_used, pids)) - before) / times


@contextmanager
def _probe(_peer: str, options: Options) -> Iterator[Probe]:
    import shmtensor as st

    with ExitStack() as stack:
        one = _Channel(st.Queue(MAXSIZE), 1, options)
        stack.callback(one.close)
        many = {count: _Channel(st.Broadcast(MAXSIZE), count, options) for count in READERS}
        for channel in many.values():
            stack.callback(channel.close)

        def fresh() -> object:
            return st.empty(NBYTES, "uint8")

        def measure(variant: str) -> Measure:
            to, _, pace = variant.partition(", ")
            times = 20 if options.quick else TIMES[pace]
            return {
                "one": one.cost(fresh, times, PACES[pace]),
                "tensor": many[int(to.split()[1])].cost(fresh, times, PACES[pace]),
            }

        yield measure


def _rows(samples: Samples) -> list[Row]:
    rows = []
    for variant in _variants("", Options()):
        for peer in CASE.peers:
            if samples.has(peer, variant):
                ratio = Summary.of(samples.ratios(peer, variant, "tensor", "one")).median
                times = Summary.of(samples.values(peer, variant, "tensor"), 1e6)
                rows.append(Row(variant, peer, "us", times, ratio, GOAL))
    return rows


CASE = Case(
    name="broadcast",
    summary="processor time of a fresh tensor of 1 MiB to the readers of a broadcast, all processes together",
    peers=("shmtensor",),
    variants=_variants,
    probe=_probe,
    rows=_rows,
    baseline="a queue to one process",
    rounds=7,
)
