"""A CUDA tensor there and back: shmtensor beside torch's CUDA sharing, in one run.

``python -m bench.gpu.round_trip [--json FILE]`` on a machine with a GPU. Measured: one process puts a
tensor into a queue, another takes it and puts a byte back; the time between, in three kinds: the same
tensor each time, a fresh one, a list of 100. The other process is each library's own, after warming up. It
refuses to run on the simulated driver, whose times say nothing.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any

WARM = 20
ROUNDS = 200


def consume(inbox: Any, outbox: Any) -> None:
    """Take whatever comes and say so, until None comes."""
    while inbox.get() is not None:
        outbox.put(b"x")


def _shmtensor() -> tuple[Any, Any]:
    import shmtensor as st
    import shmtensor.multiprocessing as mp

    return mp.get_context("spawn"), lambda: st.ones(1 << 20, "f4", device="cuda:0")


def _torch() -> tuple[Any, Any]:
    import torch
    import torch.multiprocessing as mp

    return mp.get_context("spawn"), lambda: torch.ones(1 << 20, device="cuda:0")


def measure(context: Any, make: Any) -> dict[str, dict[str, float]]:
    """Microseconds of each kind: minimum, median, 99th percentile."""
    inbox, outbox = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=consume, args=(inbox, outbox))
    process.start()
    same = make()
    many = [make() for _ in range(100)]
    kinds = {"same": lambda: same, "fresh": make, "100 in one message": lambda: many}
    found = {}
    for name, kind in kinds.items():
        times = []
        for number in range(WARM + ROUNDS):
            item = kind()
            start = time.perf_counter()
            inbox.put(item)
            outbox.get()
            if number >= WARM:
                times.append((time.perf_counter() - start) * 1e6)
        times.sort()
        found[name] = {
            "min": times[0],
            "median": statistics.median(times),
            "p99": times[len(times) * 99 // 100],
        }
    inbox.put(None)
    process.join()
    return found


def main() -> int:
    """Measure what is installed, print a table, and write it down if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if os.environ.get("SHMTENSOR_LIBCUDA"):
        print("SHMTENSOR_LIBCUDA is set: times on a simulated driver say nothing", file=sys.stderr)
        return 2
    results: dict[str, Any] = {}
    for name, load in {"shmtensor": _shmtensor, "torch": _torch}.items():
        try:
            context, make = load()
        except ImportError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        results[name] = measure(context, make)
    for name, kinds in results.items():
        for kind, times in kinds.items():
            print(f"{name:10} {kind:20} {times['min']:9.1f} {times['median']:9.1f} {times['p99']:9.1f} us")
    if options.json is not None:
        facts = {
            "date": dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "linux": platform.release(),
            "results": results,
        }
        options.json.write_text(json.dumps(facts, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
