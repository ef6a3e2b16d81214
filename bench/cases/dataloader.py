"""A DataLoader of torch with and without `st.install`, and with the queues of the drop-in.

    python -m bench dataloader [--json FILE] [--rounds N]

A worker per loader, on the other processor. All loaders exist at the same time and take turns, each after the
workers of the others have become idle; what its worker has prefetched is taken first. A sample has 20 tensors
of 4 KiB, a batch 64 x 3 x 224 x 224 float32. The last line is one such tensor of private memory, pickled,
unpickled and released in one process.
"""

from __future__ import annotations

import pickle
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import psutil
import torch
from torch.utils.data import DataLoader, Dataset

import shmtensor as st
import shmtensor.multiprocessing as mp
from bench.machine import write_record
from bench.model import Summary
from bench.options import Options, add_pin, program_parser
from bench.timing import alternate

__all__ = ["main"]

SHAPE = (64, 3, 224, 224)
PREFETCHED = 2  # by each loader


class Samples(Dataset[Any]):
    """Samples that cost little to make."""

    def __len__(self) -> int:
        return 1 << 40

    def __getitem__(self, _index: int) -> Any:
        return [torch.empty(1024) for _ in range(20)]


class Images(Dataset[Any]):
    """The same few images again and again."""

    def __init__(self) -> None:
        self._images = torch.rand(SHAPE)

    def __len__(self) -> int:
        return 1 << 40

    def __getitem__(self, index: int) -> Any:
        return self._images[index % len(self._images)]


@dataclass(frozen=True)
class Work:
    """What a loader does; `goals` are the least ratios to torch's time, with the queues of either."""

    name: str
    data: Dataset[Any]
    batch: int | None
    count: int  # in a measurement
    goals: dict[str, float]


def _place(options: Options, _worker: int) -> None:
    torch.set_num_threads(1)
    options.place(1)


def _loader(work: Work, peer: str, options: Options) -> Iterator[Any]:
    """Return the iterator of a loader, whose worker is forked now, in the state of `install`."""
    st.uninstall() if peer == "torch" else st.install("torch")
    context = mp.get_context("fork") if peer == "shmtensor-queue" else "fork"
    return iter(
        DataLoader(
            work.data,
            work.batch,
            sampler=range(1 << 40),
            num_workers=1,
            prefetch_factor=PREFETCHED,
            multiprocessing_context=context,
            worker_init_fn=partial(_place, options),
        )
    )


def _time(batches: Iterator[Any], count: int) -> float:
    """Return the seconds for each of `count` batches, which are released one by one."""
    for _ in range(PREFETCHED + 1):
        next(batches)
    start = time.perf_counter()
    for _ in range(count):
        next(batches)
    return (time.perf_counter() - start) / count


def _wait_until_prefetched() -> None:
    """Wait until no worker makes a batch any more, which would slow the next loader's worker down."""
    workers = psutil.Process().children()
    for _ in range(1000):
        before = [worker.cpu_times() for worker in workers]
        time.sleep(0.05)
        if [worker.cpu_times() for worker in workers] == before:
            return


def _measure(work: Work, rounds: int, options: Options) -> dict[str, list[float]]:
    loaders = {peer: _loader(work, peer, options) for peer in ("torch", "shmtensor", "shmtensor-queue")}
    seen: dict[str, list[float]] = {peer: [] for peer in loaders}
    for turn in range(rounds + 1):
        for peer, batches in loaders.items():
            _wait_until_prefetched()
            taken = _time(batches, work.count)
            if turn:
                seen[peer].append(taken)
    return seen


def _copy(rounds: int) -> list[float]:
    """Return the speed of sending a private tensor, relative to that of a copy, in each round."""
    st.install("torch")
    tensor = torch.ones(SHAPE)
    source, target = tensor.numpy(), np.ones(SHAPE, np.float32)

    def send() -> None:
        pickle.loads(ForkingPickler.dumps(tensor))  # this program made it

    found = [
        alternate({"send": send, "copy": lambda: np.copyto(target, source)}, budget=0.3)
        for _ in range(rounds)
    ]
    return [one["copy"] / one["send"] for one in found]


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; the exit status is 1 if a goal was missed."""
    parser = program_parser("dataloader", __doc__)
    parser.add_argument("--rounds", type=int, default=9, help="turns of each loader")
    add_pin(parser)
    parser.add_argument("--quick", action="store_true", help="few measurements: a check")
    chosen = parser.parse_args(arguments)
    options = Options(pin=chosen.pin)
    options.place(0)
    torch.set_num_threads(1)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # torch needs a descriptor for each tensor
    works = [
        Work("sample", Samples(), None, 5 if chosen.quick else 100, {"shmtensor": 30, "shmtensor-queue": 60}),
        Work("batch", Images(), 64, 2 if chosen.quick else 10, {"shmtensor": 5, "shmtensor-queue": 5}),
    ]
    seen, table = {}, []
    for work in works:
        seen[work.name] = times = _measure(work, chosen.rounds, options)
        for peer, goal in work.goals.items():
            ratio = Summary.of([a / b for a, b in zip(times["torch"], times[peer], strict=True)])
            medians = [Summary.of(times[name], 1e6).median for name in (peer, "torch")]
            text = "{:.0f} us against {:.0f} us".format(*medians)
            table.append((f"{work.name}, {peer}", text, ratio, goal))
    copies = _copy(chosen.rounds)
    table.append(("copy of a batch", "relative to np.copyto", Summary.of(copies), 0.9))
    for what, text, ratio, goal in table:
        state = "ok  " if ratio.median >= goal else "MISS"
        extremes = f"{ratio.least:.2f} to {ratio.most:.2f}"
        print(f"{state} {what}: {text}, {ratio.median:.2f} times ({extremes}); wanted: {goal:g}")
    if chosen.json:
        write_record(chosen.json, {"seen": seen | {"copy": copies}})
    return 0 if all(ratio.median >= goal for _, _, ratio, goal in table) else 1


if __name__ == "__main__":
    sys.exit(main())
