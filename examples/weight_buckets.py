"""A trainer's weights in two engines that keep copies: python examples/weight_buckets.py [GENERATIONS].

The weights travel in buckets, each a tensor for all engines. An engine copies what a bucket has into its own
weights and drops it. So trainer and engines need memory for a few buckets beside their own weights, however
large these are. A killed engine keeps no bucket, and the others go on. While a generation arrives, an engine
has parts of two: it must not answer requests then. Needs torch; uses a GPU, if any.
"""

from __future__ import annotations

import os
import queue
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import torch

import shmtensor as st
import shmtensor.multiprocessing as mp

DEVICE, ENGINES = "cuda" if torch.cuda.is_available() else "cpu", 2
BUCKET = 4 << 20  # bytes; a tensor that is larger has a bucket of its own
UNREAD = 2  # buckets that the slowest engine may be behind
ALIGNED = 256  # as allocations are: each tensor's bytes begin at a multiple

State = dict[str, torch.Tensor]
Places = list[tuple[str, int]]


def make_model() -> torch.nn.Module:
    """Return a model of 16 MiB."""
    return torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(16)))


def checksum(model: torch.nn.Module) -> int:
    """Return a checksum of all weights."""
    return sum(zlib.crc32(tensor.cpu().numpy()) for tensor in model.state_dict().values())


def in_buckets(state: State) -> Iterator[tuple[Places, int]]:
    """Yield the tensors of a bucket, by their names and the bytes before them, and its bytes."""
    places: Places = []
    size = 0
    for name, tensor in state.items():
        if places and size + tensor.nbytes > BUCKET:
            yield places, size
            places, size = [], 0
        places.append((name, size))
        size += -(-tensor.nbytes // ALIGNED) * ALIGNED
    yield places, size


def part_of(flat: torch.Tensor, begin: int, like: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a bucket that belong to a tensor, with its type and shape."""
    return flat[begin : begin + like.nbytes].view(like.dtype).view(like.shape)


def send(generation: int, state: State, weights: st.Broadcast[Any]) -> None:
    """Send all weights; wait while the slowest engine is `UNREAD` buckets behind."""
    buckets = list(in_buckets(state))
    for left, (places, size) in zip(reversed(range(len(buckets))), buckets, strict=True):
        bucket = st.empty(size, "u1", device=DEVICE)
        flat = torch.from_dlpack(bucket)
        for name, begin in places:
            part_of(flat, begin, state[name]).copy_(state[name])
        weights.put((generation, left, places, bucket))


def receive(reader: st.BroadcastReader[Any], state: State) -> int:
    """Copy the next whole generation into the weights of an engine; return its number."""
    missing = set(state)
    while True:
        generation, left, places, bucket = reader.get()
        flat = torch.from_dlpack(bucket)
        for name, begin in places:
            state[name].copy_(part_of(flat, begin, state[name]))
            missing.discard(name)
        if left == 0:
            if not missing:
                return int(generation)
            missing = set(state)  # this engine, or another trainer, had begun within a generation


def serve(weights: st.Broadcast[Any], answers: Any) -> None:
    """Receive each generation, and answer with the process, the time, the generation and a checksum."""
    model = make_model().to(DEVICE)
    with weights.reader() as reader:
        while True:
            try:
                generation = receive(reader, model.state_dict())
            except st.ShutDown:
                return
            answers.put((os.getpid(), time.monotonic(), (generation, checksum(model))))


def answers_of(engines: list[Any], answers: Any) -> dict[int, tuple[float, tuple[int, int]]]:
    """Return the answers of all engines that live, by process."""
    found: dict[int, tuple[float, tuple[int, int]]] = {}
    while any(engine.is_alive() and engine.pid not in found for engine in engines):
        with suppress(queue.Empty):
            process, when, what = answers.get(timeout=0.1)
            found[process] = when, what
    return found


def main(generations: int = 10) -> None:
    """Train, and send each generation to the engines."""
    weights: st.Broadcast[Any] = st.Broadcast(UNREAD)
    answers, context = mp.Queue(), mp.get_context("spawn")
    engines = [context.Process(target=serve, args=(weights, answers)) for _ in range(ENGINES)]
    for engine in engines:
        engine.start()
        print(f"an engine is process {engine.pid}", flush=True)
    weights.wait_for_readers(ENGINES, timeout=60)
    model = make_model().to(DEVICE)
    for generation in range(1, generations + 1):
        for parameter in model.parameters():  # in place of training
            parameter.data.copy_(torch.randn(parameter.shape))
        start = time.monotonic()
        send(generation, model.state_dict(), weights)
        found = answers_of(engines, answers)
        assert all(what == (generation, checksum(model)) for _, what in found.values())
        seconds = max((when for when, _ in found.values()), default=start) - start
        print(f"generation {generation}: in {len(found)} engines after {seconds * 1e3:.1f} ms", flush=True)
    weights.shutdown()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
