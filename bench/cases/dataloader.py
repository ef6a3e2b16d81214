"""A DataLoader of torch with and without `st.install`, with torch's queues and those of the drop-in.

    python -m bench dataloader [--json FILE] [--rounds N]

A worker per loader, on the other processor. All loaders exist at the same time and take turns, each after the
workers of the others have become idle; what its worker has prefetched is taken first. A sample has 20 tensors
of 4 KiB, a batch 64 x 3 x 224 x 224 float32: of images in memory, which are collated; of a copy of a ready
batch; of JPEGs of 500 x 400, which PIL, if it is there, decodes. The last lines are one such tensor of
private memory, pickled, unpickled and released in one process: beside `np.copyto` to an array of NumPy, which
asks the kernel for huge pages, and to a block of ours, which has the pages of shared memory.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import pickle
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing.context import ForkContext
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import psutil
import torch
from torch.utils.data import DataLoader, Dataset

import shmtensor as st
from bench.comparison import Comparison, report, take_turns
from bench.options import Options, add_pin, add_rounds, program_parser
from bench.timing import alternate

SHAPE = (64, 3, 224, 224)
PREFETCHED = 2  # by each loader
NO_GOALS: dict[str, float | None] = {"shmtensor": None, "shmtensor-queue": None}


class _TorchsQueues(ForkContext):
    """A context that `install` does not know, so that the loader has torch's queues."""


class Endless(Dataset[Any]):
    """A data set that no measurement comes to the end of."""

    def __len__(self) -> int:
        return 1 << 40


class Samples(Endless):
    """Samples that cost little to make."""

    def __getitem__(self, _index: int) -> Any:
        return [torch.empty(1024) for _ in range(20)]


class Images(Endless):
    """The same few images again and again."""

    def __init__(self) -> None:
        self._images = torch.rand(SHAPE)

    def __getitem__(self, index: int) -> Any:
        return self._images[index % len(self._images)]


class ReadyBatches(Endless):
    """Copies of a batch: fresh memory each time, since torch sends shared memory again without a copy."""

    def __init__(self) -> None:
        self._batch = torch.rand(SHAPE)

    def __getitem__(self, _index: int) -> Any:
        return self._batch.clone()


class Photos(Endless):
    """JPEGs of smooth noise, decoded and scaled."""

    def __init__(self) -> None:
        self._image = importlib.import_module("PIL.Image")
        noise = np.random.default_rng(0).integers(0, 256, (SHAPE[0], 40, 50, 3), np.uint8)
        self._files = [io.BytesIO() for _ in noise]
        for file, pixels in zip(self._files, noise, strict=True):
            self._image.fromarray(pixels).resize((500, 400)).save(file, "JPEG")

    def __getitem__(self, index: int) -> Any:
        photo = self._image.open(self._files[index % len(self._files)]).convert("RGB").resize(SHAPE[2:])
        return torch.from_numpy(np.array(photo)).permute(2, 0, 1).float() / 255


@dataclass(frozen=True)
class Work:
    """What a loader does; `goals` are the least ratios to torch's time, if any, with the queues of either."""

    name: str
    data: Dataset[Any]
    batch: int | None
    count: int  # in a measurement
    goals: dict[str, float | None]


def _place(options: Options, _worker: int) -> None:
    torch.set_num_threads(1)
    options.place(1)


def _loader(work: Work, peer: str, options: Options) -> Iterator[Any]:
    """Return the iterator of a loader, whose worker is forked now, in the state of `install`."""
    st.uninstall() if peer == "torch" else st.install("torch")
    context = "fork" if peer == "shmtensor-queue" else _TorchsQueues()
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
    _wait_until_prefetched()
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
    return take_turns({peer: partial(_time, one, work.count) for peer, one in loaders.items()}, rounds)


def _copy(rounds: int) -> dict[str, list[float]]:
    """Return the times of sending a private tensor, and of copies to memory of NumPy and to a block."""
    st.install("torch")
    tensor = torch.ones(SHAPE)
    source, target = tensor.numpy(), np.ones(SHAPE, np.float32)
    block = st.ones(SHAPE, np.float32).numpy()
    calls = {
        "send": lambda: pickle.loads(ForkingPickler.dumps(tensor)),  # this program made it
        "copy": lambda: np.copyto(target, source),
        "block": lambda: np.copyto(block, source),
    }
    found = [alternate(calls, budget=0.4) for _ in range(rounds)]
    return {name: [one[name] for one in found] for name in calls}


def main(arguments: list[str]) -> int:
    """Measure and print; the exit status is 1 if a goal was missed."""
    parser = program_parser("dataloader", __doc__)
    add_rounds(parser, 9, "turns of each loader", "few measurements")
    add_pin(parser)
    chosen = parser.parse_args(arguments)
    options = Options(pin=chosen.pin)
    options.place(0)
    torch.set_num_threads(1)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # torch needs a descriptor for each tensor
    works = [
        Work("sample", Samples(), None, 5 if chosen.quick else 100, {"shmtensor": 30, "shmtensor-queue": 60}),
        Work("batch", Images(), 64, 2 if chosen.quick else 10, {"shmtensor": 5, "shmtensor-queue": 5}),
        Work("ready batch", ReadyBatches(), None, 2 if chosen.quick else 10, NO_GOALS),
    ]
    if importlib.util.find_spec("PIL"):
        works.append(Work("batch of JPEGs", Photos(), *((4, 1) if chosen.quick else (64, 3)), NO_GOALS))
    found = []
    for work in works:
        times = _measure(work, chosen.rounds, options)
        found += [
            Comparison(f"{work.name}, {peer}", times[peer], times["torch"], goal, "us")
            for peer, goal in work.goals.items()
        ]
    times = _copy(chosen.rounds)
    found.append(Comparison("copy of a batch, to np.copyto", times["send"], times["copy"], 0.9))
    found.append(Comparison("copy of a batch, to np.copyto to a block", times["send"], times["block"], None))
    return report(found, chosen.json)
