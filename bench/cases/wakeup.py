"""Round trips in which a process has to be woken, compared with futexes in C."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from bench.consumer import BASELINE, consumer_process
from bench.model import Case, Measure, Probe
from bench.options import Options
from bench.peers import load_peer
from bench.rows import rows_of
from bench.timing import without_collector

SOURCE = Path(__file__).parents[1] / "cpp" / "futex_ping_pong.c"
NBYTES = 1 << 10
PAUSE = 2e-3  # seconds after which the consumer sleeps
ASLEEP, TOGETHER = "asleep", "one processor"
TRIPS = {ASLEEP: 200, TOGETHER: 2000}


def _variants(_peer: str, _options: Options) -> list[str]:
    return [f"{what}, {how}" for how in TRIPS for what in ("64 bytes", "1 KiB tensor")]


def _trip(send: Callable[[], object], times: int, pause: float) -> float:
    """Return the median time of a call."""
    clock, found = time.perf_counter, []
    with without_collector():
        for _ in range(times):
            if pause:
                time.sleep(pause)
            start = clock()
            send()
            found.append(clock() - start)
    return statistics.median(found)


def _futexes(program: Path, options: Options, times: int, pause: float) -> float:
    """Return the median time of a round trip of the program in C."""
    first, second = (options.processors * 2)[:2]
    places = (first, first if options.pin == "together" else second)
    pins = ["-1", "-1"] if options.pin == "none" else [str(processor) for processor in places]
    words = [str(program), *pins, str(times), str(round(pause * 1e6))]
    return int(subprocess.run(words, check=True, capture_output=True, timeout=60).stdout) * 1e-9


@contextmanager
def _probe(peer_name: str, options: Options) -> Iterator[Probe]:
    peer = load_peer(peer_name)
    placed = {ASLEEP: options, TOGETHER: replace(options, pin="together")}
    with ExitStack() as stack:
        program = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "futex-ping-pong"
        subprocess.run(["cc", "-O2", SOURCE, "-o", program], check=True)
        consumers = {how: stack.enter_context(consumer_process(peer, where)) for how, where in placed.items()}

        def measure(variant: str) -> Measure:
            what, how = variant.split(", ")
            there = consumers[how]
            times = 5 if options.quick else TRIPS[how]
            pause = PAUSE if how == ASLEEP else 0.0
            item = None if what == "64 bytes" else peer.fresh(NBYTES)
            message = BASELINE if item is None else peer.message(item)
            found = {
                "futex": _futexes(program, placed[how], times, pause),
                "time": _trip(lambda: there.hand_over(message), times, pause),
            }
            if item is not None:
                peer.dispose(item)
            return found

        yield measure


CASE = Case(
    name="wakeup",
    summary="a message and its answer if the other process sleeps, or shares the processor",
    peers=("shmtensor-queue", "shmtensor", "pickle", "torch-fd", "faster-fifo"),
    variants=_variants,
    probe=_probe,
    rows=lambda samples: rows_of(samples, _variants("", Options()), CASE.peers, "time", base="futex"),
    baseline="futexes in C",
    rounds=7,
)
