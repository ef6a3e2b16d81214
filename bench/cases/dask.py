"""Transfers and a shuffle of Dask with and without `st.install`.

    python -m bench dask [--json FILE] [--rounds N]

Two programs, Dask alone and with `st.install`, take turns; each has a cluster of two workers of one thread.
In "array", the second worker fetches an array of 256 MiB, which a task has just made in the first one, for a
task that does nothing; "read" also reads each page of it. "tensor": the first worker has made it in a tensor
(for Dask alone, in an array), so it is not copied. "empty" is an array of one element: what Dask itself
takes. The time is from the request to the result; the processor time that of both workers. "shuffle" is
`DataFrame.shuffle` of 1 GB by tasks.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

import shmtensor as st
from bench.comparison import Comparison, programs, report, take_turns
from bench.options import add_rounds, program_parser

TRANSFERS = ("array", "read", "tensor", "empty")
GOALS = {"time": 20.0, "processor": 50.0, "shuffle": 1.5}

_kept: dict[str, Any] = {}


def _prepare(on: bool) -> None:
    import dask
    from distributed import Client, LocalCluster

    if on:
        st.install("dask")
    dask.config.set({"distributed.scheduler.active-memory-manager.start": False})
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit=0)
    _kept.update(on=on, cluster=cluster, client=Client(cluster))


def _end() -> None:
    _kept["client"].close()
    _kept["cluster"].close()


def _make(count: int, in_tensor: bool) -> Any:
    array = st.empty(count).numpy() if in_tensor else np.empty(count)
    array[:] = 1
    return array


def _length(array: Any) -> int:
    return len(array)


def _read(array: Any) -> float:
    return float(array[::512].sum())


def _processor_time() -> float:
    return time.process_time()


def _transfer(kind: str, count: int) -> tuple[float, float]:
    """Return the seconds, and the seconds of the workers' processors, of a transfer."""
    client = _kept["client"]
    count = 1 if kind == "empty" else count
    first, second = sorted(client.scheduler_info()["workers"])
    made = client.submit(_make, count, kind == "tensor" and _kept["on"], workers=[first], pure=False)
    client.submit(_length, made, workers=[first], pure=False).result()
    before = sum(client.run(_processor_time).values())
    start = time.perf_counter()
    task = client.submit(_read if kind == "read" else _length, made, workers=[second], pure=False)
    task.result()
    taken = time.perf_counter() - start
    return taken, sum(client.run(_processor_time).values()) - before


def _shuffle(nbytes: int) -> tuple[float, float]:
    """Return the same of a shuffle."""
    import dask
    import dask.dataframe as dd
    import pandas as pd
    from distributed import wait

    client = _kept["client"]
    partitions = 16
    rows = nbytes // partitions // 32

    def part(i: int) -> Any:
        random = np.random.default_rng(i)
        columns = {name: random.random(rows) for name in "abc"}
        return pd.DataFrame({"key": random.integers(0, 1 << 30, rows), **columns})

    meta = pd.DataFrame({"key": np.zeros(0, "i8"), **{name: np.zeros(0) for name in "abc"}})
    frame = dd.from_map(part, range(partitions), meta=meta).persist()
    wait(frame)
    with dask.config.set({"dataframe.shuffle.method": "tasks"}):
        before = sum(client.run(_processor_time).values())
        start = time.perf_counter()
        shuffled = frame.shuffle("key", npartitions=partitions).persist()
        wait(shuffled)
        taken = time.perf_counter() - start
        assert len(shuffled) == rows * partitions
    return taken, sum(client.run(_processor_time).values()) - before


def main(arguments: list[str]) -> int:
    """Measure and print; the exit status is 1 if a goal was missed."""
    parser = program_parser("dask", __doc__)
    add_rounds(parser, 9, "turns of each program", "small arrays")
    chosen = parser.parse_args(arguments)
    count = (1 if chosen.quick else 256) << 17  # float64
    table = (1 if chosen.quick else 100) * 10_000_000
    calls = {kind: (_transfer, kind, count) for kind in TRANSFERS} | {"shuffle": (_shuffle, table)}
    with programs(_prepare, {"dask": (False,), "shmtensor": (True,)}, _end) as run:
        seen = {
            work: take_turns(
                {name: partial(one, *call) for name, one in run.items()},
                min(chosen.rounds, 2) if work == "shuffle" else chosen.rounds,
            )
            for work, call in calls.items()
        }
    found = []
    for work, times in seen.items():
        ours, theirs = (list(zip(*times[name], strict=True)) for name in ("shmtensor", "dask"))
        for place, what in enumerate(("time", "processor")):
            goal = GOALS.get(work, GOALS[what])
            if work == "empty" or (work, what) == ("shuffle", "processor"):
                goal = None
            found.append(Comparison(f"{work}, {what}", ours[place], theirs[place], goal))
    return report(found, chosen.json)
