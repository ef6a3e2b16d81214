"""``python -m tests.endurance --minutes M --workers N --out FILE``: see docs/design/verification.md."""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import psutil

import shmtensor as st
from tests.endurance.load import Loader

# Values that must not grow, and by how much the last tenth may exceed the first.
BOUNDS = {
    "resident bytes": 1.05,
    "descriptors": 1.0,
    "mappings": 1.05,
    "live blocks": 1.25,
    "reserved bytes": 1.25,
    "latency": 1.5,
}


def lasting_descriptors(process: psutil.Process) -> int:
    """Return the fewest descriptors of some counts: one of a named arena is open while its file is mapped."""
    counts = []
    for _ in range(5):
        counts.append(process.num_fds())
        time.sleep(0.002)
    return min(counts)


def measurements(loader: Loader, times: list[float], began: float) -> dict[str, Any]:
    processes = [psutil.Process(), *(psutil.Process(process.pid) for process in loader.processes)]
    usage = [process.memory_full_info() for process in processes]
    stats = st.stats()
    ordered = sorted(times)
    return {
        "seconds": time.monotonic() - began,
        "batches": len(times),
        "latency": statistics.median(ordered),
        "latency p99": ordered[len(ordered) * 99 // 100],
        "resident bytes": sum(one.uss for one in usage),
        "descriptors": sum(map(lasting_descriptors, processes)),
        "mappings": sum(len(Path(f"/proc/{p.pid}/maps").read_text().splitlines()) for p in processes),
        "live blocks": stats["blocks"],
        "reserved bytes": stats["bytes_reserved"],
    }


def compare(looks: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the medians of the first and the last tenth; a first minute is left out of longer runs."""
    steady = [one for one in looks if one["seconds"] > 60] or looks
    tenth = max(1, len(steady) // 10)
    found = {}
    for name, most in BOUNDS.items():
        first = statistics.median(one[name] for one in steady[:tenth])
        last = statistics.median(one[name] for one in steady[-tenth:])
        found[name] = {"first": first, "last": last, "ratio": last / first, "at most": most}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.endurance")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--period", type=float, default=5, help="seconds between two looks")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    began = time.monotonic()
    loader, looks, times = Loader(options.workers), [], []
    next_look = began + options.period
    while (now := time.monotonic()) < began + options.minutes * 60:
        times.append(loader.take())
        if now >= next_look:
            looks.append(measurements(loader, times, began))
            times, next_look = [], now + options.period
    loader.close()
    del loader
    gc.collect()
    st.gc(older_than=0)
    compared = compare(looks)
    result = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()),
        "minutes": options.minutes,
        "workers": options.workers,
        "batches": sum(one["batches"] for one in looks),
        "blocks left": st.stats()["blocks"],
        "compared": compared,
        "looks": looks,
    }
    if options.out:
        options.out.write_text(json.dumps(result) + "\n")
    grown = [name for name, one in compared.items() if one["ratio"] > one["at most"]]
    for name, one in compared.items():
        ratio = f"{one['ratio']:.3f} of at most {one['at most']}"
        print(f"{name:15} {one['first']:14.6g} {one['last']:14.6g}  {ratio}")
    print(f"{result['batches']} batches, {result['blocks left']} blocks left")
    return 1 if grown or result["blocks left"] else 0


if __name__ == "__main__":
    sys.exit(main())
