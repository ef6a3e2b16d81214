"""The programs of `python -m bench launch`; `bench/cases/launch.py` runs each in a fresh interpreter.

Arguments: PROGRAM ROUNDS. Prints the result as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median_high
from typing import Any

now = time.perf_counter


def ready(writer: Any) -> None:
    """Report a worker over a pipe when it has imported NumPy and shmtensor; then it counts as ready."""
    import numpy  # noqa: F401, ICN001

    import shmtensor

    shmtensor.zeros  # noqa: B018
    writer.send(os.getpid())


def start_and_wait(context: Any, count: int) -> float:
    ends = [context.Pipe(duplex=False) for _ in range(count)]
    begin = now()
    processes = [context.Process(target=ready, args=(writer,)) for _, writer in ends]
    for process in processes:
        process.start()
    for reader, _ in ends:
        reader.recv()
    elapsed = now() - begin
    for process in processes:
        process.join()
    for reader, writer in ends:
        reader.close()
        writer.close()
    return elapsed


def workers(rounds: int, count: int) -> float:
    import shmtensor.multiprocessing as mp

    context = mp.get_context("server")
    start_and_wait(context, 1)
    return median_high([start_and_wait(context, count) for _ in range(rounds)])


def workers_of_forkserver(rounds: int) -> float:
    import multiprocessing as mp

    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["__main__", "numpy", "shmtensor", "shmtensor.multiprocessing"])
    start_and_wait(context, 1)
    return median_high([start_and_wait(context, 8) for _ in range(rounds)])


def median_time(call: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        begin = now()
        call()
        times.append(now() - begin)
    return median_high(times)


def work(_rank: int) -> None:
    pass


def spawn(rounds: int) -> float:
    import shmtensor.multiprocessing as mp

    mp.spawn(work, nprocs=1, start_method="server")
    return median_time(lambda: mp.spawn(work, nprocs=8, start_method="server"), rounds)


def spawn_of_torch(rounds: int) -> float:
    import torch.multiprocessing as mp

    return median_time(lambda: mp.spawn(work, nprocs=8), max(rounds // 5, 3))


def idle(writer: Any, go: Any) -> None:
    import numpy  # noqa: F401, ICN001

    import shmtensor  # noqa: F401

    writer.send(os.getpid())
    go.wait(60)


def private_bytes(pid: int) -> int:
    with Path(f"/proc/{pid}/smaps_rollup").open() as file:
        fields = dict(line.split(":") for line in file.read().splitlines()[1:])
    return sum(int(fields[name].split()[0]) for name in ("Private_Clean", "Private_Dirty")) * 1024


def memory(_rounds: int) -> float:
    import shmtensor.multiprocessing as mp

    context = mp.get_context("server")
    go = context.Event()
    ends = [context.Pipe(duplex=False) for _ in range(4)]
    processes = [context.Process(target=idle, args=(writer, go)) for _, writer in ends]
    for process in processes:
        process.start()
    pids = [reader.recv() for reader, _ in ends]
    used = median_high([private_bytes(pid) for pid in pids])
    go.set()
    for process in processes:
        process.join()
    return used


def nothing() -> None:
    pass


def calls(rounds: int) -> dict[str, float]:
    from launch_importable import nothing as importable

    import shmtensor.multiprocessing as mp

    with mp.get_context("server").Pool(1) as pool:

        def per_call(function: Any, count: int = 2000) -> float:
            begin = now()
            for _ in range(count):
                pool.apply(function)
            return (now() - begin) / count

        per_call(nothing), per_call(importable)
        # In turns, so that what else the machine does falls on both.
        pairs = [(per_call(nothing), per_call(importable)) for _ in range(max(rounds // 2, 5))]
    return {
        "by id": median_high([a for a, _ in pairs]),
        "importable": median_high([b for _, b in pairs]),
        "ratio": median_high([a / b for a, b in pairs]),
    }


class Squares:
    """A data set that is defined here, in `__main__`."""

    def __len__(self) -> int:
        return 256

    def __getitem__(self, index: int) -> Any:
        import torch

        return torch.full((1000,), float(index * index))


def loader(rounds: int, method: str) -> float:
    """Measure a whole pass over a real DataLoader."""
    import torch
    import torch.utils.data

    import shmtensor.multiprocessing as mp

    context: Any = method
    if method == "server":
        mp.set_server_preload(["torch", "torch.utils.data"])
        context = mp.get_context("server")

    def one_pass() -> None:
        loader = torch.utils.data.DataLoader(Squares(), 32, num_workers=4, multiprocessing_context=context)
        assert [float(item[0]) for batch in loader for item in batch] == [i * i for i in range(256)]

    return median_time(one_pass, max(rounds // 5, 3))


PROGRAMS = {
    "one worker, server": lambda rounds: workers(rounds, 1),
    "8 workers, server": lambda rounds: workers(rounds, 8),
    "8 workers, forkserver": workers_of_forkserver,
    "spawn of 8, server": spawn,
    "spawn of 8, torch": spawn_of_torch,
    "private bytes, server": memory,
    "calls over a pool, server": calls,
    "torch DataLoader of 4, server": lambda rounds: loader(rounds, "server"),
    "torch DataLoader of 4, forkserver": lambda rounds: loader(rounds, "forkserver"),
}

if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]](int(sys.argv[2]))))
