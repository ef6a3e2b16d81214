"""Tensors of torch from actor to actor, by Ray's object store and by the transport of `st.install`.

    python -m bench ray [--json FILE] [--rounds N]

One cluster, and two actors for each way, which take turns: "store" is Ray alone, "zero-copy" too, with
RAY_ENABLE_ZERO_COPY_TORCH_TENSORS=1, whose tensors must not be written. The first actor returns a tensor of
64 MiB that it has in private memory, for a call of the second one. In "receive" that call does nothing, in
"read" it reads each page, in "write" it adds 1 to each element. "shared": the first one has made the tensor
over shared memory (for Ray alone, in private memory), so it is not copied. "empty" is a tensor of one
element: what Ray itself takes. The time is from the first call to the result of the second.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import ray
import torch

import shmtensor as st
from bench.comparison import Comparison, report, take_turns
from bench.options import add_rounds, program_parser

WORKS = ("receive", "read", "write", "shared", "empty")
WAYS = ("store", "zero-copy", "shmtensor")
GOAL = 2.0


class Actor:
    """The first actor of a way, or the second one."""

    def __init__(self, count: int) -> None:
        torch.set_num_threads(1)
        self._private = torch.ones(count)
        self._shared = torch.from_dlpack(st.ones(count, "f4"))
        self._empty = torch.ones(1)

    def make(self, work: str, in_shared: bool) -> torch.Tensor:
        return self._empty if work == "empty" else self._shared if in_shared else self._private

    def use(self, tensor: torch.Tensor, work: str) -> float:
        if work == "read":
            return float(tensor[::1024].sum())
        if work == "write":
            tensor += 1
        return float(tensor[0])


def _start(way: str, count: int) -> tuple[Any, Any]:
    """Return the actors of a way."""
    variables = {"RAY_ENABLE_ZERO_COPY_TORCH_TENSORS": "1" if way == "zero-copy" else "0"}
    options = {
        "num_cpus": 0,
        "enable_tensor_transport": way == "shmtensor",
        "runtime_env": {"env_vars": variables},
    }
    kind = ray.remote(**options)(Actor)
    return kind.remote(count), kind.remote(count)


def _transfer(way: str, actors: tuple[Any, Any], work: str) -> float:
    """Return the seconds of a transfer."""
    first, second = actors
    ours = way == "shmtensor"
    make = first.make.options(tensor_transport="SHMTENSOR") if ours else first.make
    start = time.perf_counter()
    made = make.remote(work, ours and work == "shared")
    ray.get(second.use.remote(made, work))
    taken = time.perf_counter() - start
    time.sleep(0.05)  # until Ray has freed the tensor
    return taken


def main(arguments: list[str]) -> int:
    """Measure and print; the exit status is 1 if a goal was missed."""
    parser = program_parser("ray", __doc__)
    add_rounds(parser, 21, "turns of each way", "small tensors")
    chosen = parser.parse_args(arguments)
    count = (1 if chosen.quick else 64) << 18  # float32
    st.install("ray")
    options = {"include_dashboard": False, "logging_level": "error", "log_to_driver": False}
    ray.init(num_cpus=2, object_store_memory=1 << 30, **options)
    actors = {way: _start(way, count) for way in WAYS}
    found = []
    for work in WORKS:
        ways = [way for way in WAYS if (work, way) != ("write", "zero-copy")]
        times = take_turns(
            {way: partial(_transfer, way, actors[way], work) for way in ways}, chosen.rounds, 2
        )
        for peer in ways[:-1]:
            goal = GOAL if peer == "store" and work != "empty" else None
            found.append(Comparison(f"{work}, {peer}", times["shmtensor"], times[peer], goal))
    ray.shutdown()
    return report(found, chosen.json)
