"""The page of what was measured on a GPU, from its summary."""

from __future__ import annotations

import json
import statistics
from typing import TYPE_CHECKING, Any

from bench.kept import machine_of
from bench.report import markdown_table, number

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """# GPU memory

Written by `python -m bench.page` from `bench/results/{file}` ({date}), measured by `bench.gpu.report`:
  {gpu}, driver {driver}; {machine};
  {versions}.
Of the tests marked `gpu`, {passed} passed, {failed} failed, and {skipped} were skipped:
"""

HAND_OVER = """
## Hand-over

One process puts a tensor of 4 MiB into a queue, another takes it and sends a byte back: medians in
microseconds, and in parentheses the 99th percentiles. `shmtensor` waits for the device, `with events` lets
the receiver wait. `memory of torch` is shared by `st.asarray`. After `st.install("torch", cuda=True)`, a
message has a copy, which is made on the GPU; torch itself shares the memory where it is.
"""

KILLS = """
## Killed processes

The only other process that holds a tensor of 64 MiB is killed: the time until the memory can be used again.
The last line has what a process opens in a second if each message has another tensor.
"""

STORM = """
In the storm (`bench.gpu.storm`), six processes exchanged tensors of 1 KiB to 72 MiB through four kinds of
queues, some by events, checked every byte that they received, and were killed at random and replaced:
{kills} kills, {messages:,} messages, {checks:,} tensors, {gigabytes} GB checked, {gone} times `ProducerGone`
because the process that it named was killed. Faults: {faults}. Left afterwards: {blocks left} blocks,
{messages left} messages, {bytes left} bytes of the device.
"""

CALLS = """
## Calls of the driver

Medians of five calls after another, in microseconds, by size of the memory. A process that uses memory of
shmtensor imports and maps each chunk once; of user-owned memory each receive opens and closes the allocation,
unless a tensor in it is still there.
"""


def page(file: Path) -> list[str]:
    """Return the lines of the page."""
    found: dict[str, Any] = json.loads(file.read_text())
    storm = found["storm"]
    return [
        *HEAD.format(file=file.name, **_about(found)).splitlines(),
        "",
        *_skipped(found["tests"]["skipped"]),
        *HAND_OVER.splitlines(),
        "",
        *_round_trips(found["round_trip"]),
        *KILLS.splitlines(),
        "",
        *_deaths(found["deaths"]),
        *STORM.format(
            **storm | {"faults": len(storm["faults"])},
            gigabytes=number(storm["bytes"] / 1e9),
            gone=sum(storm["accepted"].values()),
        ).splitlines(),
        *CALLS.splitlines(),
        "",
        *_calls(found["facts"]["time_import_and_mapping"]),
    ]


def _about(found: dict[str, Any]) -> dict[str, Any]:
    gpu, driver = found["nvidia-smi"][1].split(", ")[:2]
    tests = found["tests"]
    return {
        "date": found["date"][:10],
        "gpu": gpu,
        "driver": driver,
        "machine": machine_of(found),
        "versions": ", ".join(f"{name} {version}" for name, version in found["versions"].items()),
        "passed": tests["passed"],
        "failed": tests.get("failed", 0),
        "skipped": sum(tests["skipped"].values()),
    }


def _skipped(reasons: dict[str, int]) -> list[str]:
    return [f"- {count}: {reason}" for reason, count in reasons.items()]


def _round_trips(ways: dict[str, Any]) -> list[str]:
    kinds = list(next(iter(ways.values())))
    lines = [
        (way, *(f"{number(times[kind]['median'])} ({number(times[kind]['p99'])})" for kind in kinds))
        for way, times in ways.items()
    ]
    return markdown_table(("us", *kinds), lines)


def _deaths(deaths: dict[str, Any]) -> list[str]:
    whose = {"own": "memory of shmtensor", "users": "user-owned memory"}
    rows = {
        "median, ms": "median ms",
        "longest of ten, ms": "worst ms",
        "bytes that stay": "bytes left",
        "tensors opened in a second": "opens/s",
    }
    lines = [(title, *(number(deaths[each][key]) for each in whose)) for title, key in rows.items()]
    return markdown_table(("", *whose.values()), lines)


def _calls(sizes: dict[str, dict[str, list[float]]]) -> list[str]:
    lines = [
        (call, *(number(statistics.median(times[call])) for times in sizes.values()))
        for call in next(iter(sizes.values()))
    ]
    return markdown_table(("us", *sizes), lines)
